package upstream

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
	verdict Verdict
	streak  int // results in a row that contradict the verdict
}

const checksInARow = 2 // failures until down, and passes until up again

// Verdict returns the current verdict.
func (c *Check) Verdict() Verdict { return c.verdict }

// Record records the result of a check, and returns the verdict.
func (c *Check) Record(passed bool) Verdict {
	if passed == (c.verdict != CheckedDown) {
		c.streak = 0
	} else {
		c.streak++
	}
	switch {
	case passed && (c.verdict == Unchecked || c.streak >= checksInARow):
		c.verdict, c.streak = CheckedUp, 0
	case !passed && c.streak >= checksInARow:
		c.verdict, c.streak = CheckedDown, 0
	}
	return c.verdict
}

// Missing returns how many checks must pass before a target that is down is up again. It
// is 0 if the target is not down.
func (c *Check) Missing() int {
	if c.verdict != CheckedDown {
		return 0
	}
	return checksInARow - c.streak
}
