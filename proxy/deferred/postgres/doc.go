// Package postgres keeps deferred requests in PostgreSQL 13 or later. All proxies that use the
// same schema share them, and any of them may deliver.
//
// Each operation of the queue is one statement: a call of a function whose name has a version.
// Sessions have no state, so a pooler may assign a connection to each transaction. Puts and
// settlements that arrive while a group is being written form the next group. The functions use
// the server's clock; times of this machine are converted.
//
// Table lines has a row for each line that has entries, with the time when its first entry is
// due. A claim locks such rows, skips those that are locked, and marks the first entries with a
// lease. A statement that changes an entry in a line locks the line's row first, and all
// statements lock rows in the same order, so that there are no deadlocks. The entries of each
// rule and state are counted in separate rows for each connection, so that connections do not
// wait for each other.
//
// If an error leaves open whether the statement was executed, the entries are answered Unstored.
// As soon as the server answers again, their IDs are blocked (barred) for two minutes, so that a
// statement which is still running cannot store them, and those that were stored are removed,
// unless they were claimed.
package postgres
