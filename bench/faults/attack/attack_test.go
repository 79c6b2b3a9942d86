package attack

import (
	"bufio"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/bench/lab/rig"
	"weir/bench/lab/rig/rigtest"
	"weir/loadgen/record"
)

// good returns the row of an attack without any effect, and of its baseline.
func good() *row {
	r := harmless(attack{name: "idle", conns: fleetMin, life: timeout})
	r.base = harmless(attack{name: "none"})
	return r
}

func harmless(a attack) *row {
	return &row{
		attack: &a, scene: &scene{}, tally: tally{opened: 200, most: fleetMin},
		load: &rig.LoadResult{Result: record.Result{Sent: 5000, Success: 5000,
			LatencySuccess: record.Summary{P50: 0.001, P99: 0.004}}},
		usage: rig.Usage{RSSBefore: 10 << 20, RSSPeak: 20 << 20, CPU: time.Second, Over: 2 * time.Second},
	}
}

func TestReport(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(r *row)
		problem string
		remark  string
	}{
		{"a success", func(*row) {}, "", ""},
		{"a failure", func(r *row) { r.load.Success-- }, "1 of 5000 good requests failed", ""},
		{"memory", func(r *row) { r.scene.bounded, r.usage.RSSPeak = true, 200<<20 }, "grew by 190 MiB, more than 132", ""},
		{"nothing sent", func(r *row) { r.load.Sent, r.load.Success = 0, 0 }, "no good request was sent", ""},
		{"one stays", func(r *row) { r.left = 1 }, "1 attackers were left", ""},
		{"a fault", func(r *row) { r.panics = 1 }, "1 faults", ""},
		{"a crash", func(r *row) { r.crash = "exit status 2" }, "exit status 2", ""},
		{"a crash without a result", func(r *row) { r.crash, r.load = "killed", nil }, "killed", ""},
		{"no metrics", func(r *row) { r.silent = "timeout" }, "no metrics afterwards: timeout", ""},
		{"no answer afterwards", func(r *row) { r.canary = "reset" }, "not answered: reset", ""},
		{"no attacker", func(r *row) { r.opened = 0 }, "no attacker connected", ""},
		{"slow", func(r *row) { r.load.LatencySuccess.P99 = 0.0041 * ratioMax }, "", "idle: good p99 is 2.1"},
		{"a generator that lagged", func(r *row) { r.load.Verdict, r.load.Reasons = "INVALID", []string{"lag"} }, "",
			"its schedule: lag"},
	} {
		r := good()
		c.change(r)
		shown(t, c.name, r, c.problem, c.remark)
	}
}

// The good traffic beside an attack by HTTP/2 may be as slow as beside its control, which is looked up among the
// attacks of its scene, or twice as slow as without attackers.
func TestControl(t *testing.T) {
	for _, test := range []struct {
		control         string
		p99, ofControl  float64
		problem, remark string
	}{
		{controlFlood, 0.0200, 0.010, "", ""},
		{controlFlood, 0.0201, 0.010, "h2-ping: good p99 in ms: 20.1, expected ≤ 20", ""},
		{controlFlood, 0.0080, 0.001, "", ""}, // 4 ms without attackers
		{controlFlood, 0.0081, 0.001, "h2-ping: good p99 in ms: 8.1, expected ≤ 8", ""},
		{baseline, 0.0081, 0.010, "h2-ping: good p99 in ms: 8.1, expected ≤ 8", ""},
		{"", 0.0081, 0.010, "", "h2-ping: good p99 is 2.0"},
		{controlStuck, 0.0081, 0.010, "", "h2-ping: good p99 is 2.0"}, // was not played
	} {
		r := good()
		r.attack.name, r.attack.control, r.load.LatencySuccess.P99 = "h2-ping", test.control, test.p99
		flood, other := good(), good()
		flood.attack.name, flood.load.LatencySuccess.P99 = controlFlood, test.ofControl
		flood.scene, flood.base, r.base.scene = r.scene, r.base, r.scene
		other.attack.name, other.load.LatencySuccess.P99 = controlFlood, 1 // of another scene
		out, err := rigtest.Run(t, func(l *rig.Lab) {
			r.findControl([]*row{flood, r, other})
			r.expect(&l.Expectations)
			for _, text := range r.remarks() {
				l.Note("Remark: %s", text)
			}
			l.Conclude("done.", nil)
		})
		if (err == nil) != (test.problem == "") || !strings.Contains(out, test.problem) ||
			strings.Contains(out, "Remark") != (test.remark != "") || !strings.Contains(out, test.remark) {
			t.Errorf("%+v: got %v in\n%s", test, err, out)
		}
	}
}

// Up to p99Min the good p99 is not judged. Of three plays the median counts, but every fault.
func TestPlayedAgain(t *testing.T) {
	of := func(p99 float64) *row {
		r := good()
		r.base.load.LatencySuccess.P99, r.load.LatencySuccess.P99 = 1e-4, p99
		r.control = r.base
		return r
	}
	if of(p99Min).slow() || !of(1.01*p99Min).slow() {
		t.Error("the p99 is judged from another one on than p99Min")
	}
	low, mid, high := of(.001), of(.002), of(.003)
	if got := middle(high, low, mid); got != mid {
		t.Errorf("the row with the p99 %v counts", got.load.LatencySuccess.P99)
	}
	if low.left = 1; middle(high, low, mid) != low {
		t.Error("a fault of one play does not count")
	}
}

// shown checks the problem and the remark, if any, in the report of a row.
func shown(t *testing.T, name string, r *row, problem, remark string) {
	t.Helper()
	out, err := rigtest.Run(t, func(l *rig.Lab) { show(l, []*row{r}) })
	if (err == nil) != (problem == "") || !strings.Contains(out, problem) {
		t.Errorf("%s: got %v, want %q in\n%s", name, err, problem, out)
	}
	if strings.Contains(out, "Remark") != (remark != "") || !strings.Contains(out, remark) {
		t.Errorf("%s: want the remark %q in\n%s", name, remark, out)
	}
}

func TestFigures(t *testing.T) {
	r := good()
	if got := r.perConnection(); got != 10<<20/fleetMin {
		t.Errorf("%d bytes for each of 100 attackers that cost 10 MiB", got)
	}
	if got := r.usage.Cores(); got != 0.5 {
		t.Errorf("one second of two is %v cores", got)
	}
	r.most = fleetMin - 1
	if got := r.perConnection(); got != 0 {
		t.Errorf("too few cost %d bytes each", got)
	}
	if got := r.base.ratio(); got != 1 {
		t.Errorf("the ratio of a baseline is %v", got)
	}
	r.base.load.LatencySuccess.P99 = 0
	if got := r.ratio(); got != 0 {
		t.Errorf("a ratio to nothing is %v", got)
	}
	r.answers, r.strange = map[int]int{431: 2, 200: 1, closedUnanswered: 3}, 1
	if got := r.summary(); got != "closed×3 200×1 431×2 no HTTP×1" {
		t.Errorf("answers are told as %q", got)
	}
}

func TestAttacks(t *testing.T) {
	seen := make(map[string]bool)
	for i, s := range scenes(10) {
		for _, a := range s.attacks {
			if seen[a.name] || a.about == "" || a.conns <= 0 || a.opens <= 0 || a.text == "" && a.then == nil &&
				a.name != "flood" {
				t.Errorf("attack %q is there twice or lacks something", a.name)
			}
			if (a.goal > 0) != (i > 1) || a.goal > 0 && !s.good.Outcomes {
				t.Errorf("attack %q on a share has no goal, or the outcomes of the good client are not recorded", a.name)
			}
			seen[a.name] = true
			known := a.control == baseline || slices.ContainsFunc(s.attacks, func(c attack) bool { return c.name == a.control })
			if wants := strings.HasPrefix(a.name, groupPrefix) && a.goal == 0; wants != known {
				t.Errorf("attack %q has the control %q, which is known: %t, want %t", a.name, a.control, known, wants)
			}
		}
	}
}

func TestExpand(t *testing.T) {
	all := []rig.Part{{Name: "idle"}, {Name: "h1-flood"}, {Name: "h2-ping"}, {Name: "flood"}, {Name: "h2-goaway"}}
	want := []string{"idle", "h1-flood", "h2-ping", "h2-goaway"}
	if got := expand([]string{"idle", group}, all); !slices.Equal(got, want) {
		t.Errorf("expanded to %q", got)
	}
}

// What attackers send is what the attack says, as net/http reads it.
func TestMessages(t *testing.T) {
	texts := make(map[string]string)
	for _, s := range scenes(10) {
		for _, a := range s.attacks {
			texts[a.name] = a.text
		}
	}
	// net/http takes no extension of more than 4 KiB.
	texts["extension"] = strings.Replace(texts["extension"], strings.Repeat("a", 64<<10), strings.Repeat("a", 3000), 1)
	read := func(name string) *http.Request {
		t.Helper()
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(texts[name])))
		if err != nil {
			t.Fatalf("%s is no request: %v", name, err)
		}
		return r
	}
	if r := read("long-line"); len(r.Header.Get("X-Long")) != 100_000 {
		t.Errorf("a long line of %d", len(r.Header.Get("X-Long")))
	}
	if r := read("many-fields"); len(r.Header) != 10_000 {
		t.Errorf("%d fields", len(r.Header))
	}
	if r := read("long-name"); len(r.Header) != 1 {
		t.Errorf("%d fields", len(r.Header))
	}
	for name, want := range map[string]string{"tiny-chunks": strings.Repeat("a", 1<<16), "extension": "a"} {
		if body, err := io.ReadAll(read(name).Body); err != nil || string(body) != want {
			t.Errorf("%s: a body of %d bytes, want %d, %v", name, len(body), len(want), err)
		}
	}
	if text := texts["empty-lines"]; strings.TrimLeft(text, "\r\n") != message(usual) ||
		len(text) != 4000+len(message(usual)) {
		t.Errorf("empty lines: %q", text)
	}
	if r := read("huge-length"); r.ContentLength != 1<<63-1 {
		t.Errorf("a huge length of %d", r.ContentLength)
	}
	if text := texts["slow-head"]; !strings.HasSuffix(text, "\r\nX-Slow: ") || strings.Contains(text, "\r\n\r\n") {
		t.Errorf("an open head: %q", text)
	}
}

func TestStatusOf(t *testing.T) {
	for line, want := range map[string]int{
		"HTTP/1.1 431 Too Large\r\n": 431, "HTTP/1.1 200": 200, "HTTP/1.1 2": 0, "HTTP/1.1 xyz": 0, "HTTP/1.0 200 OK": 0,
		"junk": 0, "": 0,
	} {
		if got := statusOf([]byte(line)); got != want {
			t.Errorf("%q is %d, want %d", line, got, want)
		}
	}
}
