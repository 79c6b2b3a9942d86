package share

import (
	"hash/maphash"
	"math/rand/v2"
	"net/netip"
	"testing"
)

func TestOf(t *testing.T) {
	for in, want := range map[string]string{
		"192.0.2.1":            "192.0.2.1",
		"::ffff:192.0.2.1":     "192.0.2.1",
		"64:ff9b::c000:201":    "192.0.2.1", // NAT64
		"64:ff9b:1::c000:201":  "64:ff9b:1::/64",
		"2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64",
		"2001:db8:1:2:ffff::":  "2001:db8:1:2::/64",
		"2001:db8:1:3::1":      "2001:db8:1:3::/64",
		"fe80::1%eth0":         "fe80::/64",
		"::1":                  "::/64",
	} {
		c := ClientOf(netip.MustParseAddr(in))
		if c.String() != want {
			t.Errorf("the client of %s is %s, want %s", in, c, want)
		}
		if again := ClientOf(c.Addr()); again != c {
			t.Errorf("the client of %s is %s, and that of its address %s", in, c, again)
		}
	}
	if c := ClientOf(netip.Addr{}); c != (Client{}) || c.String() != "unknown" {
		t.Errorf("without an address the client is %s, want the zero one", c)
	}
}

func TestPlain(t *testing.T) {
	for in, want := range map[string]string{
		"192.0.2.1":           "192.0.2.1",
		"::ffff:192.0.2.1":    "192.0.2.1",
		"64:ff9b::c000:201":   "192.0.2.1",
		"64:ff9b::1:c000:201": "64:ff9b::1:c000:201",
		"fe80::1%eth0":        "fe80::1",
		"2001:db8::1":         "2001:db8::1",
	} {
		if got := Canonical(netip.MustParseAddr(in)); got.String() != want {
			t.Errorf("%s is %s, want %s", in, got, want)
		}
	}
	if Canonical(netip.Addr{}).IsValid() {
		t.Error("no address is one")
	}
}

func TestHash(t *testing.T) {
	seed := maphash.MakeSeed()
	hash := func(a string) uint64 { return ClientOf(netip.MustParseAddr(a)).Hash(seed) }
	if one, other := hash("2001:db8::1"), hash("2001:db8::ffff:2"); one != other {
		t.Errorf("two addresses of one /64 have the hashes %x and %x, want one", one, other)
	}
	if hash("192.0.2.1") == hash("192.0.2.2") {
		t.Error("two IPv4 addresses have the same hash")
	}
}

func client(i byte) Client { return ClientOf(netip.AddrFrom4([4]byte{10, 0, 0, i})) }

// Clients that take all they may get the same, to within one, and leave as much for a further one.
func TestAdmitsLeavesRoom(t *testing.T) {
	const capacity = 1200
	for k := range 20 {
		var h Usage
		for again := true; again; {
			again = false
			for i := range k {
				if c := client(byte(i)); h.Admits(c, 1, capacity) {
					h.Add(c, 1)
					again = true
				}
			}
		}
		for i := range k {
			if got, want := h.Of(client(byte(i))), int64(capacity/(k+1)); got < want-1 || got > want+1 {
				t.Errorf("each of %d clients holds %d of %d, want %d", k, got, capacity, want)
			}
		}
		if !h.Admits(client(100), 1, capacity) {
			t.Errorf("beside %d clients a further one finds no room", k)
		}
	}
}

func TestAdmitsBounds(t *testing.T) {
	a, b := client(1), client(2)
	var h Usage
	for _, step := range []struct {
		c        Client
		n        int64
		capacity int64
		want     bool
	}{
		{a, 5, 10, true},  // half
		{a, 6, 10, false}, // more than half
		{a, 1, 1, true},   // the last one, of a client that holds none
		{a, 2, 1, false},  // more than there is
		{a, 1, 0, false},  // none
		{b, 0, 0, true},   // nothing is always possible
	} {
		if got := h.Admits(step.c, step.n, step.capacity); got != step.want {
			t.Errorf("%s may take %d of %d: %t, want %t", step.c, step.n, step.capacity, got, step.want)
		}
	}
}

// One client gets seven eighths of a capacity, rounded up, and others find room beside it; below
// eight it gets all. Clients that come together share what they take.
func TestAdmitsUntilShort(t *testing.T) {
	for capacity, want := range map[int64]int64{0: 0, 1: 1, 7: 7, 8: 7, 15: 14, 16: 14, 100: 88, 1024: 896} {
		var h Usage
		for h.AdmitsUntilShort(client(1), 1, capacity) {
			h.Add(client(1), 1)
		}
		if h.Total() != want {
			t.Errorf("one client gets %d of %d, want %d", h.Total(), capacity, want)
		}
		for i := range capacity - want {
			if c := client(byte(2 + i)); !h.AdmitsUntilShort(c, 1, capacity) {
				t.Errorf("of %d one that holds nothing gets none of the last %d", capacity, capacity-h.Total())
			} else {
				h.Add(c, 1)
			}
		}
		if h.AdmitsUntilShort(client(200), 1, capacity) {
			t.Errorf("more than %d are admitted", capacity)
		}
	}
	var h Usage
	for again := true; again; {
		again = false
		for i := range 3 {
			if c := client(byte(i)); h.AdmitsUntilShort(c, 1, 800) {
				h.Add(c, 1)
				again = true
			}
		}
	}
	for i := range 3 {
		if got := h.Of(client(byte(i))); got < 233 || got > 267 {
			t.Errorf("one of three gets %d of 800, want a third of seven eighths, or of all", got)
		}
	}
}

// What is held is the sum of what was added, and clients without anything are forgotten.
func TestHeldSums(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var h Usage
	have := map[Client]int64{}
	for range 10_000 {
		c := client(byte(rng.IntN(20)))
		n := rng.Int64N(10) - min(have[c], 5)
		h.Add(c, n)
		have[c] += n
	}
	var total, clients, most int64
	for c, n := range have {
		total += n
		most = max(most, n)
		if n > 0 {
			clients++
		}
		if h.Of(c) != n {
			t.Errorf("%s holds %d, want %d", c, h.Of(c), n)
		}
	}
	if h.Total() != total || int64(h.Clients()) != clients {
		t.Errorf("%d clients hold %d, want %d and %d", h.Clients(), h.Total(), clients, total)
	}
	if c, n := h.Greediest(); n != most || have[c] != most {
		t.Errorf("the most is %d by %s, want %d", n, c, most)
	}
	if c, n := new(Usage).Greediest(); c != (Client{}) || n != 0 {
		t.Errorf("of nothing %s holds most, %d", c, n)
	}
}

// A level gives back enough, no client that holds less is affected, and one more for each would
// be too much.
func TestLevel(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		var h Usage
		for i := range rng.IntN(8) {
			h.Add(client(byte(i)), 1+rng.Int64N(50))
		}
		freed := func(level int64) (n int64) {
			for _, has := range h.All() {
				n += max(0, has-level)
			}
			return n
		}
		n := 1 + rng.Int64N(100)
		level := h.FairShare(n)
		if h.Total() < n {
			if level != 0 {
				t.Errorf("all hold %d, and to give back %d each may keep %d, want 0", h.Total(), n, level)
			}
		} else if freed(level) < n || freed(level+1) >= n {
			t.Errorf("at level %d %d are given back, at one more %d; want at least and less than %d", level, freed(level),
				freed(level+1), n)
		}
	}
}
