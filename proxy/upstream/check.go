package upstream

import "cmp"

// A Verdict is the result of active health checks of a target.
type Verdict uint8

const (
	Unchecked   Verdict = iota // no result yet, or no checks: used like an up target
	CheckedUp                  // it answers checks
	CheckedDown                // requests are not sent there
)

// String returns the verdict as a word.
func (v Verdict) String() string {
	return [...]string{"unknown", "up", "down"}[v]
}

// A Check turns the results of one target's health checks into verdicts. A single result
// may be chance; several in a row count. Only the first good result counts at once: a
// target that has not been checked yet is in use already.
//
// Owned by the goroutine that runs the checks.
type Check struct {
	Fall int // failures in a row until down; 0: 2
	Rise int // passes in a row until up again; 0: 2

	verdict Verdict
	streak  int // results in a row that contradict the verdict
}

const checksInARow = 2 // default of Check.Fall and Check.Rise

// Verdict returns the current verdict.
func (c *Check) Verdict() Verdict { return c.verdict }

// Passed records a check that succeeded, and returns the verdict.
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

// Failed records a check that failed, and returns the verdict.
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

// Missing returns how many checks must pass before a target that is down is up again. It
// is 0 if the target is not down.
func (c *Check) Missing() int {
	if c.verdict != CheckedDown {
		return 0
	}
	return cmp.Or(c.Rise, checksInARow) - c.streak
}
