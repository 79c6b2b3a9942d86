package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
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
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer target.Close()
	file := filepath.Join(t.TempDir(), "size.yaml")
	write := func(rules string) {
		testkit.WriteFile(t, file+".new", rules)
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	write(rules)
	// which refuses, too, where 121 at once take long
	p := launch(t, []string{"TARGET_URL", target.URL, "RATE_LIMIT_ALGORITHM", "off", "RULES_FILE", file, "GATE", "off"})
	visit := func() (refused int) {
		var all sync.WaitGroup
		var mu sync.Mutex
		for range 1 + images {
			all.Go(func() {
				res, err := http.Get("http://" + p.addr + "/image")
				if err == nil {
					_ = res.Body.Close()
				}
				if err != nil || res.StatusCode != 200 {
					mu.Lock()
					refused++
					mu.Unlock()
				}
			})
		}
		all.Wait()
		return refused
	}
	if n := visit(); n > 0 {
		t.Errorf("a rule in shadow refused %d requests", n)
	}
	testkit.Eventually(t, "the client is seen", func() bool {
		_, text := p.call("GET /config/keys?rule=per-client")
		return strings.Contains(text, `"busiest":{"total":121,"keys":[{"key":["127.0.0.1"],"count":121,`)
	})
	// at once, but on a machine where 121 requests take a second
	testkit.Eventually(t, "what the rule would refuse is seen", func() bool {
		if _, text := p.call("GET /config/keys?rule=per-client"); strings.Contains(text, `"refused":{"total":0`) {
			visit()
			return false
		}
		return true
	})
	if n := p.counted("per-client", "shadow_rejected"); n == "0" || n == "" {
		t.Errorf("the metrics tell of %q requests that the rule would refuse", n)
	}
	for _, capacity := range []int{50, 250} {
		write(strings.NewReplacer("    mode: shadow\n", "", "capacity: 100,", fmt.Sprintf("capacity: %d,", capacity),
			"fillRate: 20", "fillRate: 0.000001").Replace(rules))
		testkit.Eventually(t, "the file is read again", func() bool {
			_, text := p.call("GET /config/rules")
			return strings.Contains(text, fmt.Sprintf(`"capacity":%d`, capacity))
		})
		p.gets("DELETE /config/keys?rule=per-client&key=127.0.0.1", 200, `"per-client"`)
		if n := visit(); (n == 0) != (capacity > images) {
			t.Errorf("in force with room for %d at once the rule refused %d of %d requests", capacity, n, 1+images)
		}
	}
}
