package limit

import (
	"fmt"
	"strings"
)

// An Algorithm is a way to count. The zero Algorithm is none, and an error
// wherever an algorithm is needed.
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

// Algorithms returns all algorithms, in the order in which they are listed for
// people.
func Algorithms() []Algorithm {
	return []Algorithm{Fixed, Sliding, Token, SlidingLog, GCRA, Leaky, Off}
}

// String returns the word used in JSON, settings and metrics.
func (a Algorithm) String() string {
	switch a {
	case Fixed:
		return "fixed"
	case Sliding:
		return "sliding"
	case Token:
		return "token"
	case SlidingLog:
		return "sliding_log"
	case GCRA:
		return "gcra"
	case Leaky:
		return "leaky"
	case Off:
		return "off"
	}
	return "none"
}

// Fields returns the fields of a [Config] that the algorithm uses, by their names in
// JSON.
func (a Algorithm) Fields() []string {
	switch a {
	case Fixed, Sliding, SlidingLog:
		return []string{"limit", "window"}
	case GCRA:
		return []string{"limit", "window", "burst"}
	case Token, Leaky:
		return []string{"capacity", "fillRate"}
	}
	return nil
}

// Fields returns the names that the fields of a [Config] have in JSON, but for the
// algorithm.
func Fields() []string { return []string{"limit", "window", "capacity", "fillRate", "burst"} }

// LongName returns the word used in log lines.
func (a Algorithm) LongName() string {
	switch a {
	case Fixed:
		return "FixedWindow"
	case Sliding:
		return "SlidingWindow"
	case Token:
		return "TokenBucket"
	case SlidingLog:
		return "SlidingLog"
	case GCRA:
		return "GCRA"
	case Leaky:
		return "LeakyBucket"
	case Off:
		return "Off"
	}
	return "None"
}

// ParseAlgorithm is the inverse of [Algorithm.String]. Its error says which
// words are allowed.
func ParseAlgorithm(word string) (Algorithm, error) {
	for _, a := range Algorithms() {
		if a.String() == word {
			return a, nil
		}
	}
	return 0, fmt.Errorf("must be one of %s, is %q", words(), word)
}

// words lists the algorithms for people.
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
// word is an error.
func (a *Algorithm) UnmarshalText(text []byte) error {
	parsed, err := ParseAlgorithm(string(text))
	if err != nil {
		return err
	}
	*a = parsed
	return nil
}
