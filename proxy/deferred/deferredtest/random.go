package deferredtest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"weir/proxy/deferred"
)

// A history is what a random script has done, to compare with the content of the queue.
type history struct {
	*world
	rng      *rand.Rand
	accepted []deferred.Entry
	ended    map[deferred.ID]deferred.State // the state with which they were settled
	sent     map[deferred.ID]int            // number of claims that were not given back
	held     []held
}

// A held is an entry with a lease.
type held struct {
	deferred.ClaimedEntry
	until time.Time
}

// randomScript runs a script of puts, claims, settlements, cancellations, crashes and jumps of
// time, and expects the queue to contain exactly what was accepted.
func randomScript(t *testing.T, p Storage, seed uint64) {
	h := &history{
		world: newWorld(t, p, roomy), rng: rand.New(rand.NewPCG(seed, 20)),
		ended: make(map[deferred.ID]deferred.State), sent: make(map[deferred.ID]int),
	}
	for range 200 {
		h.step()
	}
	h.finish()
}

func (h *history) step() {
	h.pass(time.Duration(h.rng.IntN(3000)) * time.Millisecond)
	switch n := h.rng.IntN(100); {
	case n < 40:
		e := h.entry(fmt.Sprint(h.rng.IntN(4)))
		e.Expires = h.now.Add(1000 * time.Hour)
		if h.rng.IntN(2) == 0 {
			e.Scope, e.Fingerprint = deferred.SHA256(append(e.ID[:], make([]byte, 16)...)), deferred.SHA256{1}
		}
		h.accept(e)
		h.accepted = append(h.accepted, e)
	case n < 65:
		for _, c := range h.claim(1 + h.rng.IntN(4)) {
			h.took(c)
		}
	case n < 88:
		h.settleOne()
	case n < 94 && len(h.accepted) > 0:
		id := h.accepted[h.rng.IntN(len(h.accepted))].ID
		if h.edit(deferred.Cancel, id) == nil {
			h.end(id, deferred.Cancelled)
		}
	default:
		h.again(h.rng.IntN(2) == 0)
		h.held = nil
		h.pass(deferred.LeaseDuration)
	}
}

// took checks that an entry may be delivered.
func (h *history) took(c deferred.ClaimedEntry) {
	h.t.Helper()
	e := c.Entry
	if _, ended := h.ended[e.ID]; ended {
		h.t.Fatalf("%s is claimed after its end", e.ID)
	}
	if h.sent[e.ID] > 0 && !e.Keyed() {
		h.t.Fatalf("%s is claimed again without a key", e.ID)
	}
	for _, other := range h.held {
		if other.Entry.LineKey == e.LineKey && other.until.After(h.now) {
			h.t.Fatalf("two of line %s are delivering", e.LineKey)
		}
	}
	for _, earlier := range h.accepted {
		if earlier.ID == e.ID {
			break
		}
		got, _, err := h.q.Read(h.ctx, earlier.ID)
		if earlier.LineKey == e.LineKey && err == nil && !got.State.Final() {
			h.t.Fatalf("%s has overtaken %s", e.ID, earlier.ID)
		}
	}
	h.sent[e.ID]++
	until := h.now.Add(deferred.LeaseDuration)
	if h.place.Reopens() {
		until = h.now.Add(10_000 * time.Hour)
	}
	h.held = append(h.held, held{c, until})
}

func (h *history) settleOne() {
	if len(h.held) == 0 {
		return
	}
	i := h.rng.IntN(len(h.held))
	c := h.held[i]
	h.held = append(h.held[:i], h.held[i+1:]...)
	to := []deferred.State{deferred.Done, deferred.Failed, deferred.Unknown, deferred.Waiting,
		deferred.Waiting}[h.rng.IntN(5)]
	err := h.settle(deferred.Settlement{Lease: c.Lease, To: to, Due: h.now.Add(time.Second), Attempt: true,
		Keep: 10_000 * time.Hour})
	switch {
	case err != nil && h.place.Reopens():
		h.t.Fatalf("settle %s: %v", c.Entry.ID, err)
	case err != nil: // the lease has expired
	case to == deferred.Waiting:
		h.sent[c.Entry.ID]-- // it was not sent
	default:
		h.end(c.Entry.ID, to)
	}
}

// end records the final state of an entry, which must not have one yet.
func (h *history) end(id deferred.ID, state deferred.State) {
	h.t.Helper()
	if was, ended := h.ended[id]; ended {
		h.t.Fatalf("%s is %s after it was %s", id, state, was)
	}
	h.ended[id] = state
}

// finish compares what was accepted with the content of the queue.
func (h *history) finish() {
	h.t.Helper()
	sum, listed := 0, 0
	for s, n := range h.counts() {
		sum += n
		listed += len(h.list(deferred.State(s), 50))
	}
	if sum != len(h.accepted) || listed != sum {
		h.t.Fatalf("accepted %d, there are %d, listed %d: %v", len(h.accepted), sum, listed, h.counts())
	}
	for _, e := range h.accepted {
		got, _, err := h.q.Read(h.ctx, e.ID)
		if err != nil {
			h.t.Fatalf("%s: %v", e.ID, err)
		}
		if want, ended := h.ended[e.ID]; ended && got.State != want {
			h.t.Fatalf("%s is %s, and was settled as %s", e.ID, got.State, want)
		} else if !ended && got.State.Final() && (got.State != deferred.Unknown || e.Keyed()) {
			h.t.Fatalf("%s is %s, and nobody has ended it", e.ID, got.State)
		}
	}
}
