package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/test/testkit"
)

// The way of docs/limits.md to size a limit: a rule in shadow shows the busiest clients and what it
// would refuse of a page with many images, and refuses nothing; with a larger bucket and
// in force it lets the page pass.
func TestSizing(t *testing.T) {
	const images = 120
	text := testkit.Must(os.ReadFile("../docs/limits.md"))(t)
	_, rest, _ := strings.Cut(string(text), "cat > size.yaml <<'EOF'\n")
	rules, _, found := strings.Cut(rest, "EOF\n")
	if !found || !strings.Contains(rest, "RATE_LIMIT_ALGORITHM=off RULES_FILE=size.yaml bin/proxy") ||
		!strings.Contains(rest, "'localhost:8082/config/keys?rule=per-client'") {
		t.Fatal("docs/limits.md has no such example")
	}
	file := filepath.Join(t.TempDir(), "size.yaml")
	write := func(rules string) {
		testkit.WriteFile(t, file+".new", rules)
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	write(rules)
	// which refuses, too, where 121 at once take long
	p := launch(t, []string{"RATE_LIMIT_ALGORITHM", "off", "RULES_FILE", file, "GATE", "off"})
	visit := func() (refused int) {
		statuses := make(chan int)
		for range 1 + images {
			go func() {
				res, _, err := p.Try("GET /image")
				if err != nil {
					t.Error(err)
					res = new(http.Response)
				}
				statuses <- res.StatusCode
			}()
		}
		for range 1 + images {
			if <-statuses != 200 {
				refused++
			}
		}
		return refused
	}
	if n := visit(); n > 0 {
		t.Errorf("a rule in shadow refused %d requests", n)
	}
	p.Await("GET /config/keys?rule=per-client", 200, `"busiest":{"total":121,"keys":[{"key":["127.0.0.1"],"count":121,`)
	// at once, but on a machine where 121 requests take a second
	testkit.Eventually(t, "what the rule would refuse is seen", func() bool {
		if _, text := p.Call("GET /config/keys?rule=per-client"); strings.Contains(text, `"refused":{"total":0`) {
			visit()
			return false
		}
		return true
	})
	if p.counted("per-client", "shadow_rejected") <= 0 {
		t.Error("the metrics do not count what the rule would refuse")
	}
	for _, capacity := range []int{50, 250} {
		write(strings.NewReplacer("    mode: shadow\n", "", "capacity: 100,", fmt.Sprintf("capacity: %d,", capacity),
			"fillRate: 20", "fillRate: 0.000001").Replace(rules))
		p.Await("GET /config/rules", 200, fmt.Sprintf(`"capacity":%d`, capacity))
		p.Require("DELETE /config/keys?rule=per-client&key=127.0.0.1", 200, `"per-client"`)
		if n := visit(); (n == 0) != (capacity > images) {
			t.Errorf("in force with room for %d at once the rule refused %d of %d requests", capacity, n, 1+images)
		}
	}
}
