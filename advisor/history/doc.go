// Package history loads a rate's past from a server that speaks Prometheus' HTTP
// API, so that an advisor that starts for the first time knows the week already.
//
// Two spans are asked for: the last two days by the minute, and what lies up to
// five weeks back by five minutes. Each is asked for in pieces, as a server
// refuses more than 11,000 points in one answer, and times out on long ranges.
package history
