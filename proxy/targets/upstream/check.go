package upstream

// A CheckResult is the result of active health checks of a target.
type CheckResult uint8

const (
	Unchecked   CheckResult = iota // no result yet, or no checks: used like an up target
	CheckedUp                      // it answers checks
	CheckedDown                    // requests are not sent there
)

// String returns the verdict as a word.
func (v CheckResult) String() string {
	return [...]string{"unknown", "up", "down"}[v]
}

// A HealthCheck turns the results of one target's health checks into verdicts. A single result
// may be chance; several in a row count. Only the first good result counts at once: a
// target that has not been checked yet is in use already.
//
// Owned by the goroutine that runs the checks.
type HealthCheck struct {
	checkResult CheckResult
	streak      int // results in a row that contradict the verdict
}

const checksInARow = 2 // failures until down, and passes until up again

// Result returns the current verdict.
func (c *HealthCheck) Result() CheckResult { return c.checkResult }

// Record records the result of a check, and returns the verdict.
func (c *HealthCheck) Record(passed bool) CheckResult {
	if passed == (c.checkResult != CheckedDown) {
		c.streak = 0
	} else {
		c.streak++
	}
	switch {
	case passed && (c.checkResult == Unchecked || c.streak >= checksInARow):
		c.checkResult, c.streak = CheckedUp, 0
	case !passed && c.streak >= checksInARow:
		c.checkResult, c.streak = CheckedDown, 0
	}
	return c.checkResult
}

// Missing returns how many checks must pass before a target that is down is up again. It
// is 0 if the target is not down.
func (c *HealthCheck) Missing() int {
	if c.checkResult != CheckedDown {
		return 0
	}
	return checksInARow - c.streak
}
