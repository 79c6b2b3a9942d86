package admit

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
)

func TestAddressesAreExactUnderRaces(t *testing.T) {
	const most = 5
	a := &Addresses{Most: most}
	client := netip.MustParseAddr("2001:db8::1")
	var in, highest atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 2000 {
				if !a.Enter(client) {
					continue
				}
				n := in.Add(1)
				for h := highest.Load(); n > h && !highest.CompareAndSwap(h, n); h = highest.Load() {
				}
				in.Add(-1)
				a.Leave(client)
			}
		})
	}
	wg.Wait()
	if highest.Load() > most || len(a.counts) != 0 {
		t.Errorf("%d at a time, %d addresses left; want at most %d and none", highest.Load(), len(a.counts), most)
	}
}

// A TLS connection takes three descriptors, so there are fewer places.
func TestConnectionsMaxDefaultReckonsWithTLS(t *testing.T) {
	var p Places
	p.Begin(0)
	free := p.descriptors
	for _, step := range []struct {
		what string
		does func()
		want int64
	}{
		{"one in, one out", func() {}, free / 2},
		{"TLS in", func() { p.ExpectIn() }, free / 4},
		{"TLS in, again", func() { p.ExpectIn() }, free / 4},
		{"TLS on both sides", func() { p.ExpectOut() }, free / 6},
	} {
		step.does()
		if got := p.Most(); got != step.want {
			t.Errorf("%s: %d places of %d descriptors, want %d", step.what, got, free, step.want)
		}
	}
	var set Places
	set.Begin(1000)
	set.ExpectIn()
	if got := set.Most(); got != 1000 {
		t.Errorf("a setting of 1000 became %d", got)
	}
}
