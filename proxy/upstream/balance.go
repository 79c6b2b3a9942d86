package upstream

import "fmt"

// A Balance is a way to distribute requests over several targets.
type Balance uint8

const (
	P2C           Balance = iota // of two drawn at random, the one with fewer in flight
	RoundRobin                   // each in turn
	LeastInFlight                // the one with the fewest in flight
)

// balances lists the words of the settings, in the order of the constants.
const balances = "p2c, round_robin, least_inflight"

// String returns the word of the settings.
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
	return 0, fmt.Errorf("%q is not a way to balance; allowed: %s", word, balances)
}
