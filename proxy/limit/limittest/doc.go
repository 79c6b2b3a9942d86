// Package limittest tests the properties that every implementation of the limiter has:
// the arithmetic of package limit, and each store that repeats it.
//
// A [Model] is a second opinion: it decides from the definition of an algorithm,
// over a log of what was admitted, in numbers without bounds, and finds RetryAfter
// by trying instants. It shares no arithmetic with package limit.
package limittest
