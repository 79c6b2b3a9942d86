package upstream

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func addrs(text string) (list []netip.Addr) {
	for one := range strings.FieldsSeq(text) {
		list = append(list, netip.MustParseAddr(one))
	}
	return list
}

// Each case is a row of answers, "-" one without an address, and after the arrow
// the members that it leaves.
func TestMembers(t *testing.T) {
	for _, test := range []struct {
		most int
		rows []string
	}{
		// empty answers take nobody away
		{8, []string{"- →", "10.0.0.1 → 10.0.0.1", "- → 10.0.0.1", "- → 10.0.0.1", "- → 10.0.0.1"}},
		// the second answer without it does
		{8, []string{"10.0.0.1 10.0.0.2 → 10.0.0.1 10.0.0.2", "10.0.0.2 → 10.0.0.1 10.0.0.2", "10.0.0.2 → 10.0.0.2"}},
		// a name moves
		{8, []string{"10.0.0.1 → 10.0.0.1", "10.0.0.2 → 10.0.0.1 10.0.0.2", "10.0.0.2 → 10.0.0.2",
			"10.0.0.1 → 10.0.0.2 10.0.0.1"}},
		// in turns: not in a row
		{8, []string{"10.0.0.1 10.0.0.2 → 10.0.0.1 10.0.0.2", "10.0.0.2 → 10.0.0.1 10.0.0.2",
			"10.0.0.1 → 10.0.0.1 10.0.0.2", "10.0.0.2 → 10.0.0.1 10.0.0.2"}},
		{8, []string{"10.0.0.1 10.0.0.1 → 10.0.0.1"}},
		{8, []string{"10.0.0.1 fd00::1 → 10.0.0.1 fd00::1", "10.0.0.1 !6 → 10.0.0.1 fd00::1",
			"10.0.0.1 !6 → 10.0.0.1 fd00::1", "10.0.0.1 → 10.0.0.1 fd00::1", "10.0.0.1 → 10.0.0.1"}},
		{8, []string{"10.0.0.1 fd00::1 → 10.0.0.1 fd00::1", "fd00::1 !4 → 10.0.0.1 fd00::1", "fd00::1 → 10.0.0.1 fd00::1",
			"fd00::1 → fd00::1"}},
		{2, []string{"10.0.0.1 10.0.0.2 10.0.0.3 → 10.0.0.1 10.0.0.2 refused 1"}},
		{2, []string{"10.0.0.1 10.0.0.2 → 10.0.0.1 10.0.0.2", "10.0.0.3 10.0.0.4 → 10.0.0.1 10.0.0.2 refused 2",
			"10.0.0.3 10.0.0.4 → 10.0.0.3 10.0.0.4"}},
	} {
		m := NewResolvedAddrs(test.most)
		for i, row := range test.rows {
			said, want, _ := strings.Cut(row, " →")
			a := LookupResult{Unknown4: strings.Contains(said, "!4"), Unknown6: strings.Contains(said, "!6")}
			a.Addrs = addrs(strings.NewReplacer("-", "", "!4", "", "!6", "").Replace(said))
			before := m.Addrs()
			changed, refused := m.Answered(a)
			got := ""
			for _, addr := range m.Addrs() {
				got += " " + addr.String()
			}
			if refused > 0 {
				got += fmt.Sprintf(" refused %d", refused)
			}
			if got != want {
				t.Errorf("%q: after answer %d the members are%s, want%s", test.rows, i+1, got, want)
			}
			if changed == slices.Equal(before, m.Addrs()) {
				t.Errorf("%q: answer %d: changed is %t", test.rows, i+1, changed)
			}
		}
	}
}

// Whatever the answers: without a bound in the way the members are the addresses
// of the last two answers that had any; there are never more than the bound;
// there is always one after the first; and those who stay keep their order.
func TestMembersLaws(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 3))
		tight := seed%2 == 1
		m := NewResolvedAddrs(12)
		if tight {
			m = NewResolvedAddrs(1 + r.IntN(4))
		}
		var last, beforeLast []netip.Addr
		for range 60 {
			var a LookupResult
			for range r.IntN(6) {
				a.Addrs = append(a.Addrs, netip.AddrFrom4([4]byte{10, 0, 0, byte(r.IntN(12))}))
			}
			before := m.Addrs()
			m.Answered(a)
			if len(a.Addrs) > 0 {
				last, beforeLast = a.Addrs, last
			}
			now := m.Addrs()
			for i, addr := range now {
				if !slices.Contains(last, addr) && !slices.Contains(beforeLast, addr) || slices.Contains(now[:i], addr) {
					t.Fatalf("seed %d: %v is a member after %v and %v", seed, addr, beforeLast, last)
				}
			}
			for _, addr := range slices.Concat(last, beforeLast) {
				if !tight && !slices.Contains(now, addr) {
					t.Fatalf("seed %d: %v is no member after %v and %v", seed, addr, beforeLast, last)
				}
			}
			stay := slices.DeleteFunc(before, func(addr netip.Addr) bool { return !slices.Contains(now, addr) })
			if len(now) > m.most || len(last) > 0 && len(now) == 0 || !slices.Equal(stay, now[:len(stay)]) {
				t.Fatalf("seed %d: the members became %v after %v, at most %d", seed, now, before, m.most)
			}
		}
	}
}
