package postgres

import (
	_ "embed" // the schema
	"strings"
)

//go:embed sql/schema.sql
var schemaSQL string

//go:embed sql/state.sql
var stateSQL string

//go:embed sql/take_1.sql
var takeSQL string

//go:embed sql/take_many_1.sql
var takeManySQL string

//go:embed sql/rest_1.sql
var restSQL string

// schemaVersion is the version of the schema that this program needs. Functions carry
// the version in their names that has brought them, so that programs of different
// versions run side by side; one that means the same as before may be made faster under its
// name, as take_1 was.
const schemaVersion = 5

// Schema returns the SQL that makes the tables and functions in a schema of that name,
// for an operator with the rights to run it. It may be run again. With durable the states
// of keys are logged, so that they survive a crash of the server. The name must be one
// that [CheckSchema] accepts.
func Schema(name string, durable bool) string {
	unlogged, async := "UNLOGGED", ""
	if durable { // no decision waits for the disk: a crash may forget its last half second
		unlogged, async = "", "PERFORM set_config('synchronous_commit', 'off', true);"
	}
	r := strings.NewReplacer("@schema@", quoted(name), "@unlogged@", unlogged, "@durable@", async)
	return r.Replace(schemaSQL + "\n" + stateSQL + "\n" + takeSQL + "\n" + takeManySQL + "\n" + restSQL)
}

// quoted is an identifier. Names are of lower-case letters, digits and _, and some are
// keywords.
func quoted(name string) string { return `"` + name + `"` }
