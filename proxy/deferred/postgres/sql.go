package postgres

import (
	"embed"
	"strings"
)

//go:embed sql
var sql embed.FS

// schemaVersion is the version of the functions that this program needs.
const schemaVersion = 3

// Schema returns the SQL that makes the tables and functions in a schema of that name, for an
// operator with the rights to run it. It may be run again, and the schema may also contain the
// tables for limits.
func Schema(name string) string {
	var all []string
	for _, file := range []string{"schema", "put_1", "claim_3", "settle_1", "rest_1"} { // each needs those before it
		text, err := sql.ReadFile("sql/" + file + ".sql")
		if err != nil {
			panic("bug: " + err.Error())
		}
		all = append(all, string(text))
	}
	return strings.ReplaceAll(strings.Join(all, "\n"), "@schema@", `"`+name+`"`)
}
