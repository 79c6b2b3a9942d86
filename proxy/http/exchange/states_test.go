package exchange

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"testing"
)

var update = flag.Bool("update", false, "write the tables of states into the documentation")

// The documentation shows the tables of states as they are; -update writes them.
func TestTables(t *testing.T) {
	text := table("request", requestSteps) + "\n" + table("upstream", upstreamSteps) + "\n" + table("answer", answerSteps)
	shows(t, "../../../docs/design/008-exchanges-and-carriers.md", "```\nrequest (?s:.*?)```\n", "```\n"+text+"```\n")
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

// shows fails unless the part of a file that a pattern finds is want.
func shows(t *testing.T, file, pattern, want string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	at := regexp.MustCompile(`(?m)^` + pattern).FindIndex(text)
	switch {
	case at == nil:
		t.Fatalf("%s has no tables of states", file)
	case string(text[at[0]:at[1]]) == want:
	case *update:
		if err := os.WriteFile(file, []byte(string(text[:at[0]])+want+string(text[at[1]:])), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s shows other tables of states; run with -update", file)
	}
}
