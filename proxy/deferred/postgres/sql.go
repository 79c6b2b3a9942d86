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

// Schema returns the script that makes tables and functions in a schema of that name, which may also
// contain those for limits. See [postgres.InstallScript].
func Schema(name string) string {
	script := postgres.Script(sql, "schema", "put_1", "claim_3", "settle_1", "rest_1")
	return strings.ReplaceAll(script, "@schema@", `"`+name+`"`)
}
