package upstream

import "cmp"

// A Verdict is what active checks say about a target.
type Verdict uint8

const (
	Unchecked   Verdict = iota // nothing yet, or there are no checks: used like an up one
	CheckedUp                  // it answers checks
	CheckedDown                // it does not: no request goes there
)

// String is the verdict in words.
func (v Verdict) String() string {
	return [...]string{"unknown", "up", "down"}[v]
}

// A Check makes verdicts of the results of one target's active checks. One
// result is chance, some in a row are a fact. Only the first good one counts
// at once: a target that nobody has checked yet is in use already.
//
// Owned by whoever runs the checks.
type Check struct {
	Fall int // failures in a row until down; 0: 2
	Rise int // passes in a row until up again; 0: 2

	verdict Verdict
	streak  int // results in a row that speak against the verdict
}

const checksInARow = 2 // Check.Fall and Check.Rise unless set

// Verdict is the present one.
func (c *Check) Verdict() Verdict { return c.verdict }

// Passed is told of a check that went well, and returns the verdict.
func (c *Check) Passed() Verdict {
	switch c.verdict {
	case Unchecked:
		c.turn(CheckedUp)
	case CheckedUp:
		c.streak = 0
	case CheckedDown:
		if c.streak++; c.streak >= cmp.Or(c.Rise, checksInARow) {
			c.turn(CheckedUp)
		}
	}
	return c.verdict
}

// Failed is told of a check that went wrong, and returns the verdict.
func (c *Check) Failed() Verdict {
	if c.verdict == CheckedDown {
		c.streak = 0
		return c.verdict
	}
	if c.streak++; c.streak >= cmp.Or(c.Fall, checksInARow) {
		c.turn(CheckedDown)
	}
	return c.verdict
}

func (c *Check) turn(v Verdict) { c.verdict, c.streak = v, 0 }

// Missing is how many checks must pass before a target that is down is up
// again; 0 when it is not down.
func (c *Check) Missing() int {
	if c.verdict != CheckedDown {
		return 0
	}
	return cmp.Or(c.Rise, checksInARow) - c.streak
}
