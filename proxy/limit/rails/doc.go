// Package rails enforces the proxy's own bounds on the advisor's recommendations. The
// advisor has bounds, too; these hold even if it is faulty, outdated or impersonated.
// Whatever it recommends, the limit put in force
//
//   - is valid, and a limit: never off;
//   - has a sustained rate within [Min, Max];
//   - differs from the one before by a factor of Step at most, also when the
//     algorithm changes;
//   - keeps its algorithm for Dwell;
//   - admits at once at most what its rate admits in a minute, unless the previous limit
//     admitted more: a bucket of a million tokens is no limit, however slowly it fills.
//
// Bounds take precedence over steps: from outside the bounds the limit returns in one
// step. If a recommendation crosses a rail, the nearest allowed limit is put in force. It
// is refused completely only if there is none.
package rails
