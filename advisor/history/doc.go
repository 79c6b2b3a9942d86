// Package history loads the past of a rate from a server with Prometheus' HTTP API, so
// that an advisor that starts for the first time knows the last weeks.
//
// It requests two spans: the last two days by the minute, and up to five weeks back by
// five minutes. Each is requested in pieces, because servers refuse more than 11,000
// points in one answer, and time out on long ranges.
package history
