package gate

import "time"

// WaitDefault is the default of how long a request waits for a place.
const WaitDefault = 50 * time.Millisecond

// WaitMax is for how long a request waits for a place at most, whatever the others do, unless it is
// configured: a client may have left by then.
const WaitMax = time.Second

// A Mode says how the limit is applied.
type Mode uint8

const (
	Off    Mode = iota // there is none
	Shadow             // it is learned, and the requests that would have to wait are counted
	On                 // it is enforced
)

// String returns the word of the settings.
func (m Mode) String() string { return [...]string{"off", "shadow", "on"}[m] }
