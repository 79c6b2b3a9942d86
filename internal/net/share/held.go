package share

import (
	"iter"
	"maps"
	"slices"
)

// A Usage counts what each client holds of something that all share: places, bytes, entries.
// A client that holds nothing has no entry, so there are at most as many entries as there is
// to hold. The zero value is ready to use.
//
// Owned by the owner of what is shared.
type Usage struct {
	by    map[Client]int64
	total int64
}

// Add records that c holds n more, or -n less. A client never holds less than nothing.
func (h *Usage) Add(c Client, n int64) {
	now := h.by[c] + n
	switch {
	case now < 0:
		panic("bug: share: " + c.String() + " gives back more than it holds")
	case now == 0:
		delete(h.by, c)
	default:
		if h.by == nil {
			h.by = make(map[Client]int64)
		}
		h.by[c] = now
	}
	h.total += n
}

// Of returns how much c holds.
func (h *Usage) Of(c Client) int64 { return h.by[c] }

// Total returns how much all clients hold.
func (h *Usage) Total() int64 { return h.total }

// Clients returns how many clients hold something.
func (h *Usage) Clients() int { return len(h.by) }

// Admits reports whether c may hold n more of capacity: if all holds stay within it, and if
// what c then holds is no more than what is left for others. So one client takes at most a
// half, each of two at most a third, each of k at most 1/(k+1), and a further one always
// finds room. No client has to be known in advance for that (Choudhury and Hahne, "Dynamic
// Queue Length Thresholds for Shared-Memory Packet Switches", IEEE/ACM Transactions on
// Networking 6(2), 1998, with α = 1). A client that holds nothing may take one while there
// is any left.
func (h *Usage) Admits(c Client, n, capacity int64) bool {
	left := capacity - h.total - n
	has := h.by[c]
	return left >= 0 && (has+n <= left || has == 0 && n <= 1)
}

// AdmitsUntilShort is Admits for something that one client may use while others do not need it.
// It admits every client as long as an eighth of the capacity, rounded down, is left after that.
// What is left is for clients that hold less than that amount.
func (h *Usage) AdmitsUntilShort(c Client, n, capacity int64) bool {
	left := capacity - h.total - n
	return left >= 0 && left >= capacity/8 || h.Admits(c, n, capacity)
}

// Greediest returns the client that holds most, and how much. It is the zero Client with 0 if
// nothing is held. Of clients that hold the same it returns any.
func (h *Usage) Greediest() (c Client, most int64) {
	for client, n := range h.by {
		if n > most {
			c, most = client, n
		}
	}
	return c, most
}

// All yields the clients that hold something, in any order, and how much each holds.
func (h *Usage) All() iter.Seq2[Client, int64] { return maps.All(h.by) }

// FairShare returns the most that each client may keep so that n is given back in total. A client
// that holds more gives back the difference; one that holds less gives back nothing. FairShare is 0
// if all clients together hold less than n.
func (h *Usage) FairShare(n int64) int64 {
	held := slices.Sorted(maps.Values(h.by))
	sum := int64(0)
	for i := len(held) - 1; i >= 0; i-- {
		sum += held[i]
		next, above := int64(0), int64(len(held)-i)
		if i > 0 {
			next = held[i-1]
		}
		if sum-above*next >= n {
			return (sum - n) / above
		}
	}
	return 0
}
