package upstream

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestBalanceWords(t *testing.T) {
	for b, word := range map[Balance]string{P2C: "p2c", RoundRobin: "round_robin", LeastInFlight: "least_inflight"} {
		if got, err := ParseBalance(word); err != nil || got != b || b.String() != word {
			t.Errorf("%s: parsed as %v, %v; written as %s", word, got, err, b)
		}
	}
	for _, word := range []string{"", "P2C", "random", "p2c "} {
		_, err := ParseBalance(word)
		if err == nil {
			t.Errorf("%q was taken", word)
			continue
		}
		for _, allowed := range []string{"p2c", "round_robin", "least_inflight"} {
			if !strings.Contains(err.Error(), allowed) {
				t.Errorf("%q: the error does not name %s: %v", word, allowed, err)
			}
		}
	}
}

// choices lets a new chooser choose among len(inFlight) targets, times times.
func choices(b Balance, seed uint64, times int, inFlight ...int) []int {
	c := NewChooser(b, rand.New(rand.NewPCG(seed, 1)))
	var chosen []int
	for range times {
		chosen = append(chosen, c.Choose(len(inFlight), func(i int) int { return inFlight[i] }))
	}
	return chosen
}

// shares counts how often each of n targets was chosen.
func shares(chosen []int, n int) []int {
	counts := make([]int, n)
	for _, i := range chosen {
		counts[i]++
	}
	return counts
}

func TestOneTarget(t *testing.T) {
	for b := P2C; b <= LeastInFlight; b++ {
		if got := shares(choices(b, 1, 10, 99), 1); got[0] != 10 {
			t.Errorf("%v: %v", b, got)
		}
	}
}

func TestSameSeedSameChoices(t *testing.T) {
	for b := P2C; b <= LeastInFlight; b++ {
		one, two := choices(b, 5, 1000, 3, 1, 4, 1, 5), choices(b, 5, 1000, 3, 1, 4, 1, 5)
		if !slices.Equal(one, two) {
			t.Errorf("%v: the same seed chose differently", b)
		}
	}
	if slices.Equal(choices(P2C, 5, 1000, 0, 0, 0), choices(P2C, 6, 1000, 0, 0, 0)) {
		t.Error("p2c: another seed chose the same")
	}
}

func TestP2C(t *testing.T) {
	for _, test := range []struct {
		name     string
		inFlight []int
		never    []int // targets that lose against every other
	}{
		{"of two the one with fewer", []int{3, 2}, []int{0}},
		{"the fullest of three never", []int{5, 9, 5}, []int{1}},
		{"only the emptiest two of a staircase win often", []int{0, 1, 2, 3}, []int{3}},
	} {
		got := shares(choices(P2C, 1, 6000, test.inFlight...), len(test.inFlight))
		for _, i := range test.never {
			if got[i] != 0 {
				t.Errorf("%s: target %d was chosen %d times", test.name, i, got[i])
			}
		}
	}
	// Of a staircase of 4, target i wins against the 3-i above it: 3, 2, 1, 0 of 6 pairs.
	stairs := shares(choices(P2C, 1, 6000, 0, 1, 2, 3), 4)
	for i, want := range []int{3000, 2000, 1000, 0} {
		if off := stairs[i] - want; off < -200 || off > 200 {
			t.Errorf("target %d of a staircase was chosen %d times, want about %d", i, stairs[i], want)
		}
	}
	for i, n := range shares(choices(P2C, 1, 6000, 7, 7, 7), 3) {
		if n < 1800 || n > 2200 {
			t.Errorf("target %d of three equal ones was chosen %d times of 6000", i, n)
		}
	}
}

func TestRoundRobin(t *testing.T) {
	chosen := choices(RoundRobin, 1, 9, 100, 0, 0)
	if got := shares(chosen, 3); !slices.Equal(got, []int{3, 3, 3}) {
		t.Errorf("9 choices among 3: %v", got)
	}
	for i := range chosen[1:] {
		if chosen[i+1] != (chosen[i]+1)%3 {
			t.Errorf("not in turn: %v", chosen)
		}
	}
}

func TestLeastInFlight(t *testing.T) {
	for _, test := range []struct {
		inFlight []int
		want     []bool // who is chosen at all
	}{
		{[]int{4, 0, 9}, []bool{false, true, false}},
		{[]int{2, 1, 1}, []bool{false, true, true}},
		{[]int{1, 1, 1}, []bool{true, true, true}},
	} {
		got := shares(choices(LeastInFlight, 1, 12, test.inFlight...), 3)
		for i, n := range got {
			if n > 0 != test.want[i] {
				t.Errorf("in flight %v: chosen %v", test.inFlight, got)
			}
		}
	}
	for _, test := range []struct{ inFlight, want []int }{
		{[]int{1, 1, 1}, []int{4, 4, 4}},
		{[]int{1, 0, 0}, []int{0, 6, 6}}, // who stands behind a fuller one gets no more than the rest
		{[]int{0, 9, 0, 9, 0}, []int{4, 0, 4, 0, 4}},
	} {
		if got := shares(choices(LeastInFlight, 1, 12, test.inFlight...), len(test.want)); !slices.Equal(got, test.want) {
			t.Errorf("in flight %v, equals each in turn: chosen %v of 12, want %v", test.inFlight, got, test.want)
		}
	}
}
