package rig

import "testing"

func TestNumber(t *testing.T) {
	n := Number{What: "restarts", Usual: 20, Least: 1, Most: 1000}
	for _, c := range []struct {
		args []string
		want int
	}{{nil, 20}, {[]string{"1"}, 1}, {[]string{"1000"}, 1000}, {[]string{"0"}, 0}, {[]string{"1001"}, 0}, {[]string{"x"}, 0}, {[]string{"1", "2"}, 0}} {
		if v, err := n.Read(c.args); v != c.want || (err == nil) != (c.want > 0) {
			t.Errorf("%v: %d, %v, want %d", c.args, v, err, c.want)
		}
	}
}
