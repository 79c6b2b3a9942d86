package limit

import (
	"fmt"
	"strings"
)

// An Algorithm is a way to count. The zero Algorithm is invalid.
type Algorithm uint8

const (
	Fixed      Algorithm = iota + 1 // limit permits in each window
	Sliding                         // limit permits in the window and a share of the previous one
	Token                           // capacity tokens, refilled at fillRate
	SlidingLog                      // limit permits in any span as long as the window
	GCRA                            // one permit each window/limit, burst of them early
	Leaky                           // a queue of capacity places that empties at fillRate
	Off                             // no limit
)

// algorithms describes each algorithm, in the order in which they are listed: the word in
// JSON, settings and metrics, the word in log lines, and the fields of a Config that it
// uses.
var algorithms = [...]struct {
	word, long string
	fields     []string
}{
	0:          {"none", "None", nil},
	Fixed:      {"fixed", "FixedWindow", []string{"limit", "window"}},
	Sliding:    {"sliding", "SlidingWindow", []string{"limit", "window"}},
	Token:      {"token", "TokenBucket", []string{"capacity", "fillRate"}},
	SlidingLog: {"sliding_log", "SlidingLog", []string{"limit", "window"}},
	GCRA:       {"gcra", "GCRA", []string{"limit", "window", "burst"}},
	Leaky:      {"leaky", "LeakyBucket", []string{"capacity", "fillRate"}},
	Off:        {"off", "Off", nil},
}

// Algorithms returns all algorithms, in the order in which they are listed in messages.
func Algorithms() []Algorithm {
	return []Algorithm{Fixed, Sliding, Token, SlidingLog, GCRA, Leaky, Off}
}

// known returns a, or the zero Algorithm if a is unknown.
func (a Algorithm) known() Algorithm {
	if int(a) < len(algorithms) {
		return a
	}
	return 0
}

// String returns the word used in JSON, settings and metrics.
func (a Algorithm) String() string { return algorithms[a.known()].word }

// LongName returns the word used in log lines.
func (a Algorithm) LongName() string { return algorithms[a.known()].long }

// Fields returns the fields of a [Config] that the algorithm uses, by their JSON names.
// The caller must not modify the slice.
func (a Algorithm) Fields() []string { return algorithms[a.known()].fields }

// FieldsText returns those fields as text for messages.
func (a Algorithm) FieldsText() string {
	if a.Fields() == nil {
		return "no numbers"
	}
	return strings.Join(a.Fields(), ", ")
}

// words lists the algorithms for messages.
func words() string {
	var all []string
	for _, a := range Algorithms() {
		all = append(all, a.String())
	}
	return strings.Join(all, ", ")
}

// MarshalText writes the word of [Algorithm.String]; the zero Algorithm is the
// empty word.
func (a Algorithm) MarshalText() ([]byte, error) {
	if a == 0 {
		return nil, nil
	}
	return []byte(a.String()), nil
}

// UnmarshalText reads what [Algorithm.MarshalText] writes, except that the empty
// word is an error. The error lists the words that are allowed.
func (a *Algorithm) UnmarshalText(text []byte) error {
	for _, known := range Algorithms() {
		if known.String() == string(text) {
			*a = known
			return nil
		}
	}
	return fmt.Errorf("must be one of %s, is %q", words(), text)
}
