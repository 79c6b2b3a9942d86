package postgres

import (
	"embed"
	"strings"
)

//go:embed sql
var sql embed.FS

// Script returns files of folder sql one after another; each needs those before it.
func Script(sql embed.FS, files ...string) string {
	all := make([]string, len(files))
	for i, file := range files {
		text, err := sql.ReadFile("sql/" + file + ".sql")
		if err != nil {
			panic("bug: " + err.Error())
		}
		all[i] = string(text)
	}
	return strings.Join(all, "\n")
}

// schemaVersion is the version of the schema that this program needs. The names of functions
// contain the version that introduced them, so that programs of older versions that are running
// continue after a migration; they cannot start afterwards. A function may be replaced under its
// name by one that does the same for the calls of older programs, as was done with take_1
// and sweep_1.
const schemaVersion = 7

// Schema returns the SQL that creates the tables and functions in a schema of that name, for an
// operator with the rights to run it. It may be run again. With durable the states of keys are in
// logged tables, so that they survive a crash. The name must be one that [CheckSchema] accepts.
func Schema(name string, durable bool) string {
	unlogged, async := "UNLOGGED", ""
	if durable { // no decision waits for the disk: a crash may forget its last half second
		unlogged, async = "", "PERFORM set_config('synchronous_commit', 'off', true);"
	}
	r := strings.NewReplacer("@schema@", quoted(name), "@unlogged@", unlogged, "@durable@", async)
	return r.Replace(Script(sql, "schema", "state", "take_1", "take_many_1", "rest_1"))
}

// quoted returns an identifier in quotes. Names consist of lower-case letters, digits and _, and
// some are keywords.
func quoted(name string) string { return `"` + name + `"` }
