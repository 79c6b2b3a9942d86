package postgres

import (
	"embed"
	"strings"

	"weir/proxy/store/postgres"
)

//go:embed sql
var sql embed.FS

// schemaVersion is the version of the functions that this program needs.
const schemaVersion = 4

// Schema returns the SQL that makes the tables and functions in a schema of that name, for an
// operator with the rights to run it. It may be run again, and the schema may also contain the
// tables for limits.
func Schema(name string) string {
	script := postgres.Script(sql, "schema", "put_1", "claim_3", "settle_1", "rest_1")
	return strings.ReplaceAll(script, "@schema@", `"`+name+`"`)
}
