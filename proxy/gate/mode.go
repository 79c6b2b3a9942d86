package gate

import (
	"fmt"
	"time"
)

// Wait is the default of how long a request waits for a place.
const Wait = 50 * time.Millisecond

// A Mode says how the limit is applied.
type Mode uint8

const (
	Off    Mode = iota // there is none
	Shadow             // it is learned, and the requests that would have to wait are counted
	On                 // it is enforced
)

// modes lists the words of the settings, in the order of the constants.
const modes = "off, shadow, on"

// String returns the word of the settings.
func (m Mode) String() string { return [...]string{"off", "shadow", "on"}[m] }

// ParseMode is the inverse of String.
func ParseMode(word string) (Mode, error) {
	for m := Off; m <= On; m++ {
		if m.String() == word {
			return m, nil
		}
	}
	return 0, fmt.Errorf("%q is no mode of the gate; allowed: %s", word, modes)
}
