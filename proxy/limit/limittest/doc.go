// Package limittest tests the properties of every implementation of the limiter: the
// arithmetic of package limit, and the stores that repeat it.
//
// A [Model] is an independent implementation for comparison. It decides by the definition of
// an algorithm from a log of what was admitted, with integers of any size, and finds
// RetryAfter by trying instants. It shares no arithmetic with package limit.
package limittest
