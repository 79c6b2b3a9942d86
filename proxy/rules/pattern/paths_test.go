package pattern

import "testing"

func TestPaths(t *testing.T) {
	p := NewPaths([]string{"/metrics", "/config/limits", "/config/decisions/{id}"})
	for path, want := range map[string]bool{
		"/metrics": true, "/config/limits": true, "/config/decisions/1": true,
		"": false, "/": false, "*": false, "/metricsx": false, "/metrics/": false, "/config": false, "/config/": false,
		"/config/limit":   false,
		"/config/limits/": false, "/config/limits/1": false, "/config/decisions/": false, "/config/decisions/1/2": false,
		"/config/decisions": false,
		"/Config/limits":    false, "//config/limits": false, "/actuator/beans": false,
	} {
		if got := p.Has([]byte(path)); got != want {
			t.Errorf("%s is in the set: %t", path, got)
		}
		if (*Paths)(nil).Has([]byte(path)) {
			t.Errorf("%s is in the empty set", path)
		}
	}
	path := []byte("/config/decisions/1")
	if n := testing.AllocsPerRun(100, func() { p.Has(path) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
