package upstream

import "testing"

func TestCheck(t *testing.T) {
	for _, test := range []struct {
		name       string
		fall, rise int
		results    string // + passed, - failed
		want       Verdict
		missing    int
	}{
		{"nothing known", 0, 0, "", Unchecked, 0},
		{"the first pass counts at once", 0, 0, "+", CheckedUp, 0},
		{"one failure is chance", 0, 0, "-", Unchecked, 0},
		{"two in a row are a fact", 0, 0, "--", CheckedDown, 2},
		{"a pass between begins anew", 0, 0, "-+-", CheckedUp, 0},
		{"up and two failures", 0, 0, "+--", CheckedDown, 2},
		{"down and one pass", 0, 0, "--+", CheckedDown, 1},
		{"down and two passes", 0, 0, "--++", CheckedUp, 0},
		{"down, a failure between passes", 0, 0, "--+-+", CheckedDown, 1},
		{"fall 3 at the bound", 3, 1, "+---", CheckedDown, 1},
		{"fall 3 before the bound", 3, 1, "+--+--", CheckedUp, 0},
		{"rise 1", 3, 1, "---+", CheckedUp, 0},
		{"rise 3", 1, 3, "-++", CheckedDown, 1},
	} {
		c := Check{Fall: test.fall, Rise: test.rise}
		for _, r := range test.results {
			var said Verdict
			if r == '+' {
				said = c.Passed()
			} else {
				said = c.Failed()
			}
			if said != c.Verdict() {
				t.Errorf("%s: said %v, Verdict is %v", test.name, said, c.Verdict())
			}
		}
		if c.Verdict() != test.want || c.Missing() != test.missing {
			t.Errorf("%s: %v, missing %d; want %v, missing %d", test.name, c.Verdict(), c.Missing(), test.want, test.missing)
		}
	}
}
