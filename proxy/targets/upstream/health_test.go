package upstream

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"
)

var epoch = time.Date(2026, 1, 19, 16, 30, 0, 0, time.UTC)

// alone is a target without others.
func alone() *Target[int] {
	g := NewBalancer(P2C, 0, func(int) int { return 0 }, rand.New(rand.NewPCG(1, 1)))
	return g.Add(0)
}

// play tells h facts, one word each, and returns the status after the last:
//
//	500ms   so much time passes
//	choose  a request goes there; its outcome comes with
//	200 …   an answer's status, or
//	gone    the client went away
//	dial    a connect begins; its outcome comes with
//	ok, failed
//	down, up  the verdict of active checks
//
// An outcome without a beginning begins at once.
func play(t *testing.T, h *Health, script string) Status {
	t.Helper()
	now := epoch
	request, connect := h.Epoch(), h.Epoch()
	chosen, dialled := false, false
	for word := range strings.FieldsSeq(script) {
		if d, err := time.ParseDuration(word); err == nil {
			now = now.Add(d)
			continue
		}
		if n, err := strconv.Atoi(word); err == nil || word == "gone" {
			if !chosen {
				h.chosen(now)
				request = h.Epoch()
			}
			if err != nil {
				h.Abandoned(request)
			} else {
				h.Answered(now, request, n)
			}
			chosen = false
			continue
		}
		switch word {
		case "choose":
			h.chosen(now)
			request, chosen = h.Epoch(), true
		case "dial":
			connect, dialled = h.Epoch(), true
		case "ok":
			h.Connected(now)
		case "failed":
			if !dialled {
				connect = h.Epoch()
			}
			h.ConnectFailed(now, connect)
		case "down":
			h.Checked(now, CheckedDown, now)
		case "up":
			h.Checked(now, CheckedUp, now)
		default:
			t.Fatalf("bug: %q in a script", word)
		}
	}
	return h.Status(now)
}

func TestHealth(t *testing.T) {
	for _, test := range []struct {
		name, script string
		want         Status
	}{
		{"new", "", Up},
		{"one failed connect", "failed", Ejected},
		{"just before the back-off ends", "failed 999ms", Ejected},
		{"after it, chance included", "failed 1250ms", Probing},
		{"the probe connects", "failed 1250ms choose ok", Up},
		{"the probe is answered on a kept connection", "failed 1250ms 200", Up},
		{"the probe fails", "failed 1250ms choose failed", Ejected},
		{"the second back-off is longer", "failed 1250ms choose failed 1999ms", Ejected},
		{"and ends too", "failed 1250ms choose failed 2500ms", Probing},
		{"back with the first connect while ejected", "failed ok", Up},
		{"failures while ejected do not prolong it", "failed 900ms failed failed 350ms", Probing},

		{"four gateway errors", "502 503 504 503", Up},
		{"five gateway errors", "502 503 504 503 502", Ejected},
		{"a good answer between", "503 503 503 503 200 503 503 503 503", Up},
		{"a client's mistake is a good answer too", "503 503 503 503 404 503", Up},
		{"a 500 between is none", "503 503 503 503 500 503", Ejected},
		{"one bad client's 500s in a moment", strings.Repeat("500 ", 100), Up},
		{"and nothing else for five seconds", strings.Repeat("500 ", 5) + "5s 500", Ejected},
		{"but for one good answer", strings.Repeat("500 ", 5) + "4s 200 1s 500", Up},
		{"four 500s in a long time are few", "500 5s 500 5s 500 5s 500", Up},
		{"the fifth", "500 5s 500 5s 500 5s 500 500", Ejected},
		{"501 and 505 are like 500", "501 505 501 5s 505 501", Ejected},
		{"ejected by answers a connect proves nothing", "503 503 503 503 503 ok", Ejected},
		{"but an answer does", "503 503 503 503 503 200", Up},
		{"after the back-off likewise", "503 503 503 503 503 1250ms choose ok", Probing},
		{"the probe is well answered", "503 503 503 503 503 1250ms 200", Up},
		{"the probe meets a gateway error", "503 503 503 503 503 1250ms 503", Ejected},
		{"a 500 leaves it open", "503 503 503 503 503 1250ms 500", Probing},

		{"what was chosen before the ejection proves nothing", "choose failed 200", Ejected},
		{"nor in the probing", "choose failed 1250ms 503", Probing},
		{"a connect begun before is not the probe's", "dial failed 1250ms choose failed", Probing},
		{"nor is one begun for want of others while ejected", "failed dial 1250ms choose failed", Probing},
		{"a connect begun before and done since is news", "dial failed 500ms ok", Up},
		{"old failures after it is up again", "dial failed ok failed", Up},

		{"active check down", "down", Down},
		{"goes before ejected", "failed down", Down},
		{"down and up begins anew", "failed down up", Up},
		{"up says nothing about requests", "failed up", Ejected},
	} {
		if got := play(t, &alone().Health, test.script); got != test.want {
			t.Errorf("%s: %v, want %v after %s", test.name, got, test.want, test.script)
		}
	}
}

// The back-off doubles to its bound, and chance adds up to a quarter.
func TestBackoff(t *testing.T) {
	for _, test := range []struct {
		level int
		want  time.Duration
	}{
		{0, time.Second}, {1, 2 * time.Second}, {4, 16 * time.Second}, {5, 30 * time.Second}, {1000, 30 * time.Second},
	} {
		var least, most time.Duration = 1 << 62, 0
		chance := rand.New(rand.NewPCG(3, 3))
		for range 1000 {
			d := backoff(test.level, chance)
			least, most = min(least, d), max(most, d)
		}
		if bound := test.want + test.want/4; least < test.want || most > bound {
			t.Errorf("level %d: from %v to %v, want %v to %v", test.level, least, most, test.want, bound)
		}
		if spread := most - least; spread < test.want/5 {
			t.Errorf("level %d: chance spreads %v by %v only", test.level, test.want, spread)
		}
	}
}

// lengths are the back-offs of ejections that follow each other after so much
// time up.
func lengths(seed uint64, up time.Duration, n int) (all []time.Duration) {
	g := NewBalancer(P2C, 0, func(int) int { return 0 }, rand.New(rand.NewPCG(seed, 1)))
	h, now := &g.Add(0).Health, epoch
	for range n {
		h.ConnectFailed(now, h.Epoch())
		all = append(all, h.until.Sub(now))
		now = h.until
		h.Connected(now)
		now = now.Add(up)
	}
	return all
}

// A target that comes and goes is ejected for longer each time; one that was
// well for a quiet time starts over.
func TestQuiet(t *testing.T) {
	long := lengths(1, 30*time.Second-1, 8)
	for i, d := range long[1:] {
		if want := min(time.Second<<(i+1), 30*time.Second); d < want || d > want+want/4 {
			t.Errorf("ejection %d without a quiet time: %v, want %v and up to a quarter", i+2, d, want)
		}
	}
	for i, d := range lengths(1, 30*time.Second, 8) {
		if d > 1250*time.Millisecond {
			t.Errorf("ejection %d after a quiet time: %v", i+1, d)
		}
	}
	if again := lengths(1, 30*time.Second-1, 8); fmt.Sprint(again) != fmt.Sprint(long) {
		t.Errorf("the same seed ejected for %v, want %v", again, long)
	}
	if fmt.Sprint(long) == fmt.Sprint(lengths(2, 30*time.Second-1, 8)) {
		t.Error("another seed ejected for the same times")
	}
}

// A hundred connects that are under way when a target dies are one death.
func TestOneDeath(t *testing.T) {
	h := &alone().Health
	m := h.Epoch()
	for range 100 {
		h.ConnectFailed(epoch, m)
		h.Answered(epoch, m, 502)
	}
	probing := epoch.Add(1250 * time.Millisecond)
	if h.Ejections() != 1 || h.Status(probing) != Probing {
		t.Errorf("%d ejections, then %v", h.Ejections(), h.Status(probing))
	}
	h.ConnectFailed(probing, m) // the last of them has timed out
	if got := h.Ejections(); got != 1 {
		t.Errorf("after a connect from before the ejection: got %d ejections, want 1", got)
	}
}

func TestStatusWords(t *testing.T) {
	var words []string
	for s := Up; s <= Draining; s++ {
		words = append(words, s.String())
	}
	for v := Unchecked; v <= CheckedDown; v++ {
		words = append(words, v.String())
	}
	if got := strings.Join(words, " "); got != "up ejected probing down draining unknown up down" {
		t.Errorf("words: %s", got)
	}
}

func TestCheck(t *testing.T) {
	for _, test := range []struct {
		name    string
		results string // + passed, - failed
		want    CheckResult
		missing int
	}{
		{"nothing known", "", Unchecked, 0},
		{"the first pass counts at once", "+", CheckedUp, 0},
		{"one failure is chance", "-", Unchecked, 0},
		{"two in a row are a fact", "--", CheckedDown, 2},
		{"a pass between begins anew", "-+-", CheckedUp, 0},
		{"up and two failures", "+--", CheckedDown, 2},
		{"down and one pass", "--+", CheckedDown, 1},
		{"down and two passes", "--++", CheckedUp, 0},
		{"down, a failure between passes", "--+-+", CheckedDown, 1},
	} {
		var c HealthCheck
		for _, r := range test.results {
			if said := c.Record(r == '+'); said != c.Result() {
				t.Errorf("%s: said %v, Verdict is %v", test.name, said, c.Result())
			}
		}
		if c.Result() != test.want || c.Missing() != test.missing {
			t.Errorf("%s: %v, missing %d; want %v, missing %d", test.name, c.Result(), c.Missing(), test.want, test.missing)
		}
	}
}
