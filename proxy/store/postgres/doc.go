// Package postgres keeps the states of limits in PostgreSQL 13 or later, for proxies that
// share a database and no Redis. A function inside the database decides exactly as package
// limit does, on the server's clock.
//
// # Deciding
//
// A batch of a lane is one call, one transaction and one round trip. The function take_1
// decides all groups and returns the states before the decisions, from which package
// limit computes the same decisions. It takes an advisory lock for each key, in ascending
// order, so that calls cannot deadlock, and reads the clock while it holds the locks.
// A refusal writes nothing. take_one_1 and take_many_1 do the same faster for groups with
// one counter of token or gcra, if no other group of the batch has the key.
//
// The functions are called by the protocol message FunctionCall, for which the server parses
// and plans no statement. They are called by unnamed statements if a pooler does not forward that
// message, and after a function was created again, until its new OID is known. No session state is
// used, so a pooler may assign another connection to each transaction (PgBouncer with
// pool_mode=transaction). The functions need the isolation level READ COMMITTED: if the default is
// another, a batch is a transaction with that level.
//
// # Tables
//
// Table keys has a row for each key and kind of limits, table log the entries of sliding_log.
// They are unlogged by default: their changes are not written to the WAL, which makes them
// several times cheaper. They are empty after a crash or the promotion of a standby, so each key
// may then be admitted its limit once more. Documents and leases are logged. A transaction that
// is left open in the same database prevents PostgreSQL from removing old versions of a busy row,
// so that decisions become slower every second. One in another database does not.
//
// # Connections
//
// A connection belongs to one goroutine, which sends one call at a time. When the deadline of
// an ask passes, its connection waits for the answer for another second and is then closed.
// A connection that the server has closed while it was idle is replaced before it is used.
// Only a call that was certainly rolled back is sent twice.
//
// # Functions
//
// Names of functions contain the version of the schema that introduced them, so proxies of
// different versions can use one database. The first proxy of a newer version adds its functions,
// under a lock. The functions disable plans that do not look up each key in the index. PL/pgSQL
// keeps a plan for as long as the connection lasts, and one that was made for an empty table
// would scan all of a large one.
//
// The functions are SECURITY DEFINER. A role may call any of them, with any arguments, in a
// session that it has prepared. So each function has the search_path pg_catalog, pg_temp and
// writes all other names with their schema. Helper functions, which only the others call, have no
// search_path of their own. They write the types of their variables with the schema, too, because
// a session keeps the types that the first call has found. A proxy checks who owns the schema
// before it calls a function there, and its own statements have this search_path.
//
// A batch waits at most half of POSTGRES_TIMEOUT for a lock, whether of a key or of a row that
// another program has locked. One proxy at a time deletes expired rows, a slice of the table per
// second. Every proxy reads the state of the database every 5 s: the size of the tables, dead rows,
// and the oldest transaction. [store.Backend.Edits] contains the timeline, which a promoted standby
// changes.
//
// Functions were chosen because a decision must be exact and take one round trip, also behind a
// pooler in transaction mode. docs/design/007-functions-in-postgresql.md has the alternatives and
// their measurements.
package postgres
