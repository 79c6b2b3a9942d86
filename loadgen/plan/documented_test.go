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
	testkit.Documented(t, page, "plan fields", testkit.Fields(document{}))
	all := maps.Clone(params)
	all["steps"], all["trace"] = testkit.Fields(stepsParams{}), testkit.Fields(traceParams{})
	testkit.Documented(t, page, "profiles", slices.Collect(maps.Keys(all)))
	for _, row := range testkit.Rows(t, page, "profiles") {
		name, documented := testkit.Quoted(row[0])[0], testkit.Quoted(row[1])
		slices.Sort(documented)
		if want := slices.Sorted(slices.Values(all[name])); !slices.Equal(documented, want) {
			t.Errorf("%s: profile %s has the parameters %q, want %q", page, name, documented, want)
		}
	}
	var templates []string
	for _, usage := range usages {
		templates = append(templates, "{{"+usage+"}}")
	}
	testkit.Documented(t, page, "templates", templates)
}
