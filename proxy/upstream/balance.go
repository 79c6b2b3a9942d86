package upstream

import "fmt"

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
