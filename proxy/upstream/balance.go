package upstream

// A Balance is a way to distribute requests over several targets.
type Balance uint8

const (
	P2C           Balance = iota // of two drawn at random, the one with fewer in flight
	RoundRobin                   // each in turn
	LeastInFlight                // the one with the fewest in flight
)

// String returns the word of the settings.
func (b Balance) String() string {
	return [...]string{"p2c", "round_robin", "least_inflight"}[b]
}
