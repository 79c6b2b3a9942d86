// Package postgres keeps deferred requests in PostgreSQL 13 or later, for all proxies that use
// the same schema: any of them delivers.
//
// Each thing that the queue does is one statement: a call of a function whose name has a version.
// Nothing is kept in a session, so that a pooler may lend a connection to each transaction. Puts
// and settlements that come while one is being written make up the next. The functions work with
// the server's clock, and times of this machine are converted.
//
// Table lines has a row for each line that has entries, with the time when its first entry is
// due. A claim locks such rows, passes over those that are locked, and marks the first entries
// with a lease. Who changes an entry in a line has locked the line's row before, and rows are
// locked in one order everywhere, so that no two statements wait for each other. What there is of
// each rule and state is counted in rows of each connection's own, so that they do not wait for
// each other either.
//
// After an error of which nobody can know whether the statement was carried out, entries are
// answered Unstored, and barred as soon as the server answers again: what was stored of them is
// taken out, unless it was claimed, and what is still being stored fails.
package postgres
