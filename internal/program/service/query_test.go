package service

import (
	"net/http"
	"strings"
	"testing"

	"github.com/goccy/go-json"
)

// Every endpoint refuses the parameters that it does not have, and names those that it
// has. Health takes any: a probe that is refused would restart the program.
func TestUnknownParameters(t *testing.T) {
	for _, program := range []string{"proxy", "loadgen", "target", "advisor"} {
		e := env()
		e.Guard = &AccessGuard{Open: true}
		h := NewEndpoints(e)
		for _, one := range OwnEndpoints() {
			if one.Program == program {
				h.HandleFunc(one.Pattern, func(http.ResponseWriter, *http.Request) {})
			}
		}
		for _, one := range OwnEndpoints() {
			if one.Program != "" && one.Program != program {
				continue
			}
			method, path, _ := strings.Cut(one.Pattern, " ")
			path = strings.NewReplacer("{id}", "abc", "{$}", "").Replace(path)
			ask := func(query string) (status int, answer struct{ Error, Path string }) {
				w := request(h, method, path+"?"+query)
				if w.Code == http.StatusBadRequest {
					if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
						t.Fatal(err)
					}
				}
				return w.Code, answer
			}
			anything := one.Query == "*"
			status, answer := ask("pinn=true")
			if anything == (status == http.StatusBadRequest) {
				t.Errorf("%s?pinn=true: %d", one.Pattern, status)
			}
			if anything {
				continue
			}
			if answer.Path != "pinn" || !strings.Contains(answer.Error, `"pinn" is not a parameter of `+one.Pattern) {
				t.Errorf("%s?pinn=true: %+v", one.Pattern, answer)
			}
			for _, name := range strings.Fields(one.Query) {
				if !strings.Contains(answer.Error, name) {
					t.Errorf("%s does not name its parameter %s: %s", one.Pattern, name, answer.Error)
				}
				if status, answer := ask(name + "=1"); status != http.StatusOK {
					t.Errorf("%s?%s=1: %d %+v", one.Pattern, name, status, answer)
				}
			}
			if status, answer := ask("a=%zz"); status != http.StatusBadRequest {
				t.Errorf("%s?a=%%zz: %d %+v", one.Pattern, status, answer)
			}
		}
	}
}
