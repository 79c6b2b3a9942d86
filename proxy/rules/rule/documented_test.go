package rule

import (
	"testing"

	"weir/internal/test/testkit"
)

// The documentation has a row for each field of a rule and of a client, and for nothing else.
func TestFieldsAreDocumented(t *testing.T) {
	const page = "../../../docs/rules.md"
	testkit.RequireDocumented(t, page, "rule fields", testkit.Fields(Rule{}))
	testkit.RequireDocumented(t, page, "client fields", testkit.Fields(clientText{}))
}
