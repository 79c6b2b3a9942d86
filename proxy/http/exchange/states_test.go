package exchange

import (
	"fmt"
	"testing"

	"weir/internal/test/testkit"
)

// The documentation shows the tables of states as they are; -update writes them.
func TestTables(t *testing.T) {
	text := table("request", requestSteps) + "\n" + table("upstream", upstreamSteps) + "\n" + table("answer", answerSteps)
	testkit.RequireShown(t, "../../../docs/design/008-exchanges-and-carriers.md", "```\nrequest (?s:.*?)```\n",
		"```\n"+text+"```\n")
}

// table is a table of states as text.
func table[S interface {
	~uint8
	fmt.Stringer
}](name string, steps []step[S]) string {
	b := fmt.Sprintf("%-12s%-12swhen\n", name, "becomes")
	for _, s := range steps {
		b += fmt.Sprintf("%-12v%-12v%s\n", s.from, s.to, s.when)
	}
	return b
}
