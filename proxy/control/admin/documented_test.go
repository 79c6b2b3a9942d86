package admin

import (
	"testing"

	"weir/internal/test/testkit"
)

// The documentation has a row for each field of POST /config/keys, and for nothing else.
func TestKeyGrantIsDocumented(t *testing.T) {
	testkit.RequireDocumented(t, "../../../docs/rules.md", "key fields", testkit.Fields(keyGrant{}))
}
