package delivery

import (
	"fmt"
	"testing"

	"weir/internal/net/share"
)

// A client has a quarter of the places in one rule and half of them in all rules, a further client
// and a further rule find one, and there are no more than underWayMax.
func TestPlaces(t *testing.T) {
	t.Parallel()
	p := places{by: make(map[string]*share.Usage)}
	takes := func(rule string, client, want int) {
		t.Helper()
		n := 0
		for n <= underWayMax && p.take(rule, rateClient(client)) {
			n++
		}
		if n != want {
			t.Errorf("client %d takes %d places of rule %s, want %d", client, n, rule, want)
		}
	}
	takes("a", 1, underWayMax/4)
	takes("a", 2, underWayMax/8)
	for i := range underWayMax / 8 {
		if !p.take("a", rateClient(10+i)) {
			t.Errorf("further client %d finds no place", i)
		}
	}
	takes("a", 3, 0) // the rule has half
	if n := p.clients("a"); n != 2+underWayMax/8 {
		t.Errorf("%d clients have places", n)
	}
	if full := p.full(underWayMax / 2); len(full) != 1 || len(p.full(underWayMax/2+1)) != 0 {
		t.Errorf("full are %v, and with one more free place %v", full, p.full(underWayMax/2+1))
	}
	further := 1000
	for i := range underWayMax {
		rule := fmt.Sprint("b", i)
		for p.take(rule, rateClient(1)) {
		}
		if p.all.Of(rateClient(1)) > underWayMax/2 {
			t.Fatalf("a client has %d places", p.all.Of(rateClient(1)))
		}
		for p.take(rule, rateClient(further)) {
			further++
		}
	}
	takes("c", 4, 0)
	if p.all.Total() != underWayMax {
		t.Errorf("%d places are taken, want %d", p.all.Total(), underWayMax)
	}
	p.leave("a", rateClient(1))
	takes("c", 4, 1)
	for range underWayMax/4 - 1 {
		p.leave("a", rateClient(1))
	}
	if p.by["a"].Of(rateClient(1)) != 0 {
		t.Error("what was given back is held")
	}
}
