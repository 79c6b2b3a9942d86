package plan

import (
	"maps"
	"slices"
	"testing"

	"weir/internal/test/testkit"
)

// The documentation has a row for each field, profile and template, and for nothing else.
func TestFieldsAreDocumented(t *testing.T) {
	const page = "../../docs/loadgen.md"
	testkit.RequireDocumented(t, page, "plan fields", testkit.Fields(document{}))
	all := maps.Clone(params)
	all["steps"], all["trace"] = testkit.Fields(stepsParams{}), testkit.Fields(traceParams{})
	testkit.RequireDocumented(t, page, "profiles", slices.Collect(maps.Keys(all)))
	for _, row := range testkit.TableRows(t, page, "profiles") {
		name, documented := testkit.BackquotedWords(row[0])[0], testkit.BackquotedWords(row[1])
		slices.Sort(documented)
		if want := slices.Sorted(slices.Values(all[name])); !slices.Equal(documented, want) {
			t.Errorf("%s: profile %s has the parameters %q, want %q", page, name, documented, want)
		}
	}
	var templates []string
	for _, usage := range usages {
		templates = append(templates, "{{"+usage+"}}")
	}
	testkit.RequireDocumented(t, page, "templates", templates)
}
