package wire

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"weir/proxy/roster"
)

// Where everybody may read metrics and health they tell targets by numbers, which
// stay with a target as long as it is there.
func TestTargetsByNumber(t *testing.T) {
	r := startWith(t, func(c *Config) { c.Roster.Named = false }, "http://127.0.0.1:1,http://127.0.0.2:1")
	numbers := func(list ...string) string {
		t.Helper()
		targets := make([]*roster.Target, 0, len(list))
		for _, host := range list {
			targets = append(targets, &roster.Target{URL: "http://" + host + ":1", Addr: host + ":1", Host: host})
		}
		if len(list) > 0 {
			r.Targets.Set(targets)
		}
		var metrics bytes.Buffer
		r.env.Metrics.Write(&metrics)
		up := r.Targets.Up()
		if text := metrics.String() + fmt.Sprint(up); strings.Contains(text, "127.0.0.") {
			t.Errorf("an address is told:\n%s", text)
		}
		var told []string
		for _, s := range r.Targets.Status() {
			told = append(told, fmt.Sprintf("%s %d", strings.TrimPrefix(s.URL, "http://127.0.0."), s.Number))
			if _, known := up[fmt.Sprint(s.Number)]; !known {
				t.Errorf("health tells %v, not number %d", up, s.Number)
			}
			if !strings.Contains(metrics.String(), fmt.Sprintf("\nratelimiter_upstream_up{target=\"%d\"} ", s.Number)) {
				t.Errorf("the metrics do not tell number %d", s.Number)
			}
		}
		return strings.Join(told, ", ")
	}
	for _, step := range []struct {
		list []string
		want string
	}{
		{nil, "1:1 1, 2:1 2"},
		{[]string{"127.0.0.3", "127.0.0.2"}, "3:1 1, 2:1 2"},
		{[]string{"127.0.0.2", "127.0.0.3", "127.0.0.1"}, "2:1 2, 3:1 1, 1:1 3"},
		{[]string{"127.0.0.1"}, "1:1 3"},
		{[]string{"127.0.0.4", "127.0.0.1", "127.0.0.5", "127.0.0.6"}, "4:1 1, 1:1 3, 5:1 2, 6:1 4"},
	} {
		if got := numbers(step.list...); got != step.want {
			t.Errorf("after %q the numbers are %s, want %s", step.list, got, step.want)
		}
	}
}
