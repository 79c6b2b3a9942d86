// Package guard is the proxy's own bounds on what the advisor recommends. The
// advisor has guard rails, too; these hold when it is wrong, old, or somebody
// else: whatever it says, the limit put in force
//
//   - is valid, and a limit: never off;
//   - has a sustained rate within [Min, Max];
//   - differs from the one before by a factor of Step at most, also when the
//     algorithm changes;
//   - keeps its algorithm for Dwell;
//   - lets no more pass at once than its rate does in a minute, unless the one
//     before did: a bucket of a million tokens is no limit, however slowly it fills.
//
// Bounds go before steps: from outside the bounds the way back in is one step.
// Where a recommendation crosses a rail, what comes nearest to it is put in force.
// It is refused whole only if nothing does.
package guard
