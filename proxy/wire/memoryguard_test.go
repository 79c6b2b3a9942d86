package wire

import (
	"fmt"
	"maps"
	"net/netip"
	"testing"
	"time"

	"weir/internal/net/share"
	"weir/internal/test/testkit"
)

// now is when memories are compared; how much time passes is of no importance.
var now = time.Unix(1e9, 0)

func addr(i byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, i}) }

// A budgetRig is a memory whose clients hold what by says, by the last byte of their address.
type budgetRig struct {
	MemoryGuard
	by   map[byte]int64
	shed map[share.Client]float64 // the last call of Shed; nil: none since the last comparison
	log  testkit.Log
}

func newRig(budget int64) *budgetRig {
	r := &budgetRig{by: map[byte]int64{}}
	r.MemoryGuard = MemoryGuard{Budget: budget, Log: r.log.Logger(), Held: func() *share.Usage {
		held := new(share.Usage)
		for i, n := range r.by {
			held.Add(share.ClientOf(addr(i)), n)
		}
		return held
	}, Shed: func(keep map[share.Client]float64) int {
		r.shed = keep
		return len(keep)
	}}
	return r
}

// compare compares a use with the budget, and returns how much each client is to keep.
func (r *budgetRig) compare(used int64) map[share.Client]float64 {
	r.shed = nil
	r.judge(now, used)
	return r.shed
}

// Between the two marks nothing changes, so that shedding does not flutter. Clients that hold
// nothing are not shed.
func TestMemoryMarks(t *testing.T) {
	m := newRig(1000)
	for _, step := range []struct {
		used  int64
		short bool
		sheds uint64
	}{{0, false, 0}, {919, false, 0}, {920, true, 1}, {2000, true, 1}, {851, true, 1}, {850, false, 1},
		{919, false, 1}, {920, true, 2}, {0, false, 2}} {
		if shed := m.compare(step.used); shed != nil || m.Shedding.Load() != step.short || m.Sheds.Load() != step.sheds {
			t.Errorf("at %d of 1000: sheds %v, everybody %t, for the %dth time, want %t, %d", step.used, shed,
				m.Shedding.Load(), m.Sheds.Load(), step.short, step.sheds)
		}
	}
}

// Clients give back what they hold beyond the level at which enough is free, from the first
// mark on, and are refused until the use is at the second. Others are not affected.
func TestClientsThatHoldMost(t *testing.T) {
	m := newRig(10_000)
	m.by = map[byte]int64{1: 1000, 2: 500, 3: 100}
	if shed := m.compare(8799); shed != nil {
		t.Errorf("below the mark %v are shed", shed)
	}
	// 300 too much: the first keeps 700
	want := map[share.Client]float64{share.ClientOf(addr(1)): .7}
	if shed := m.compare(8800); !maps.Equal(shed, want) {
		t.Errorf("at the mark %v are shed, want %v", shed, want)
	}
	// 820 too much, of 700 + 500: each keeps 190
	m.by[1] = 700
	want = map[share.Client]float64{share.ClientOf(addr(1)): 190. / 700, share.ClientOf(addr(2)): 190. / 500}
	if shed := m.compare(9320); !maps.Equal(shed, want) {
		t.Errorf("later %v are shed, want %v", shed, want)
	}
	refuses := func(want ...bool) {
		t.Helper()
		for i, is := range want {
			equal(t, fmt.Sprint("a refusal of client ", i+1), m.Refuses(addr(byte(i+1))), is)
		}
	}
	refuses(true, true, false)
	m.by = map[byte]int64{3: 100}
	m.compare(8600)
	refuses(true, true, false)
	m.compare(8500)
	refuses(false, false, false)
	if m.Sheds.Load() != 0 || m.ClientSheds.Load() != 3 || m.ClientRefusals.Load() != 4 {
		t.Errorf("shed everybody %d times, %d of clients, refused %d; want 0, 3, 4", m.Sheds.Load(), m.ClientSheds.Load(),
			m.ClientRefusals.Load())
	}
}

// Every client may hold a part of the budget. If that leaves too little, everybody is shed, but
// only when memory is short, and then the clients that hold more as well.
func TestNoClientHoldsMuch(t *testing.T) {
	m := newRig(256_000)
	const least = 1000
	short := m.part(memoryShort)
	excess := short - m.part(memoryEnough)
	m.by = map[byte]int64{1: excess + least}
	if m.compare(short); m.Shedding.Load() || m.shed == nil {
		t.Errorf("everybody is shed: %t, clients: %v, want false and one", m.Shedding.Load(), m.shed)
	}
	m.compare(0)
	m.by = map[byte]int64{1: excess + least - 2, 2: least}
	if m.compare(short - 1); m.Shedding.Load() || m.shed != nil {
		t.Errorf("before memory is short everybody is shed: %t, clients: %v", m.Shedding.Load(), m.shed)
	}
	m.compare(short)
	if _, ok := m.shed[share.ClientOf(addr(2))]; !m.Shedding.Load() || len(m.shed) != 1 || ok {
		t.Errorf("everybody is shed: %t, clients: %v, want true and the first", m.Shedding.Load(), m.shed)
	}
	if !m.Refuses(addr(9)) {
		t.Error("a client that holds nothing is not refused")
	}
}

// If memory stays short although clients are shed, everybody is shed.
func TestSheddingClientsDoesNotHelp(t *testing.T) {
	m := newRig(10_000)
	m.by = map[byte]int64{1: 5000}
	for i, want := range []bool{false, true, true} {
		if m.compare(9300); m.Shedding.Load() != want || m.shed == nil {
			t.Errorf("at comparison %d everybody is shed: %t, want %t, clients: %v", i, m.Shedding.Load(), want, m.shed)
		}
	}
	equal(t, "lines, one for each of the two, at most once a minute", m.log.Count("\n"), 2)
}

// The clients that are refused at the same time are bounded: beyond, only the latest are.
func TestRefusedMax(t *testing.T) {
	m := newRig(1)
	clients := func(from, n int) map[share.Client]float64 {
		keep := map[share.Client]float64{}
		for i := range n {
			keep[share.ClientOf(netip.AddrFrom4([4]byte{10, 1, byte((from + i) >> 8), byte(from + i)}))] = 0
		}
		return keep
	}
	m.refuse(clients(0, refusedMax-1))
	m.refuse(clients(refusedMax-1, 1))
	equal(t, "clients that are refused", len(*m.refused.Load()), refusedMax)
	m.refuse(clients(refusedMax, 1))
	equal(t, "clients that are refused beyond the bound", len(*m.refused.Load()), 1)
}

// Asking whether a client is refused does not allocate.
func TestRefusesDoesNotAllocate(t *testing.T) {
	m := newRig(10_000)
	m.by = map[byte]int64{1: 5000}
	m.compare(9000)
	if n := testing.AllocsPerRun(100,
		func() { m.Refuses(addr(1)); m.Refuses(netip.MustParseAddr("2001:db8::1")) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
