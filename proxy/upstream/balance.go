package upstream

import (
	"fmt"
	"math/rand/v2"
)

// A Balance says which of several targets the next request goes to.
type Balance uint8

const (
	P2C           Balance = iota // the one of two drawn at random with fewer in flight
	RoundRobin                   // each in turn
	LeastInFlight                // the one with the fewest in flight
)

// balances are the words of the settings, in the order of the constants.
const balances = "p2c, round_robin, least_inflight"

// String is the word of the settings.
func (b Balance) String() string {
	return [...]string{"p2c", "round_robin", "least_inflight"}[b]
}

// ParseBalance is the inverse of String.
func ParseBalance(word string) (Balance, error) {
	for b := P2C; b <= LeastInFlight; b++ {
		if b.String() == word {
			return b, nil
		}
	}
	return 0, fmt.Errorf("%q is no way to balance; allowed: %s", word, balances)
}

// A Chooser chooses among n targets. p2c is Mitzenmacher, "The Power of Two
// Choices in Randomized Load Balancing", 2001.
//
// Owned by its loop.
type Chooser struct {
	balance Balance
	chance  *rand.Rand
	turn    int
}

// NewChooser returns a Chooser that draws from chance.
func NewChooser(b Balance, chance *rand.Rand) *Chooser {
	return &Chooser{balance: b, chance: chance}
}

// Choose returns the index of the target for the next request. inFlight tells
// how many each has; n is at least 1.
func (c *Chooser) Choose(n int, inFlight func(i int) int) int {
	if n == 1 {
		return 0
	}
	switch c.balance {
	case RoundRobin:
		c.turn = (c.turn + 1) % n
		return c.turn
	case LeastInFlight:
		best := (c.turn + 1) % n // among equals the first after the one chosen last
		for k := 2; k <= n; k++ {
			if i := (c.turn + k) % n; inFlight(i) < inFlight(best) {
				best = i
			}
		}
		c.turn = best
		return best
	}
	i := c.chance.IntN(n)
	j := c.chance.IntN(n - 1)
	if j >= i {
		j++
	}
	if inFlight(j) < inFlight(i) {
		return j
	}
	return i
}
