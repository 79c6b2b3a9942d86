package postgres

import (
	_ "embed" // the schema
	"strings"
)

//go:embed sql/schema.sql
var schemaSQL string

//go:embed sql/put_1.sql
var putSQL string

//go:embed sql/claim_3.sql
var claimSQL string

//go:embed sql/settle_1.sql
var settleSQL string

//go:embed sql/rest_1.sql
var restSQL string

// schemaVersion is the version of the functions that this program needs.
const schemaVersion = 3

// Schema returns the SQL that makes the tables and functions in a schema of that name, for an
// operator with the rights to run it. It may be run again, and the schema may also contain the
// tables for limits.
func Schema(name string) string {
	all := strings.Join([]string{schemaSQL, putSQL, claimSQL, settleSQL, restSQL}, "\n")
	return strings.ReplaceAll(all, "@schema@", `"`+name+`"`)
}
