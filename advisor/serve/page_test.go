package serve

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/advisor/forecast"
	"weir/internal/data/chart/charttest"
	"weir/internal/test/testkit"
)

// browsing is the page's time in the browser: enough to reload twice.
const browsing = 12 * time.Second

// look opens the page in a browser.
func (r *rig) look() string {
	r.t.Helper()
	return charttest.DOM(r.t, "http://"+r.Addr().String()+"/", browsing)
}

// Without data the page says what is missing, and with data it shows it.
func TestPage(t *testing.T) {
	cfg := defaults()
	zone := testkit.Must(time.LoadLocation("Europe/Berlin"))(t)
	cfg.Zone = zone
	r := start(t, cfg)
	if dom := r.look(); !strings.Contains(dom, "No snapshot yet") || strings.Contains(dom, "<svg") ||
		strings.Contains(dom, `class="away"`) {
		t.Errorf("without a snapshot the page is\n%s", dom)
	}
	r.post(snapAt(monday))
	feed(t, r.locked, monday, monday.Add(20*time.Hour), 5*time.Minute)
	s := snapAt(monday.Add(20*time.Hour + 5*time.Minute))
	s.Instance, s.Interval, s.Forwarded, s.Rejected = "<b>", 5*time.Minute, 30, 0.5
	r.post(s)
	r.page.mu.Lock()
	r.page.body = nil // as if a second had passed
	r.page.mu.Unlock()
	dom := r.look()
	testkit.Contains(t, dom,
		"Newest snapshot Mon 19 Jan 2026 21:05:00 CET", "20 h of history", ">Arriving<", ">Predicted<",
		">Limit in force<", ">Recommended<", ">Capacity<",
		`aria-label="The last hours and the next"`, `aria-label="The last days"`, `aria-label="Latency"`, ">CET</text>",
		">21:00</text>", ">forecast</text>",
		"&lt;b&gt;", "Times are those of Europe/Berlin", ">5 min<", "What the forecast is made of")
	if strings.Contains(dom, "NaN") || strings.Contains(dom, `class="away"`) {
		t.Errorf("the page is\n%s", dom)
	}
}

// The page can be drawn with any part of the data missing.
func TestPageOfLittle(t *testing.T) {
	for _, c := range []struct {
		name string
		tell func(r *rig)
		want string
	}{
		{"one snapshot", func(r *rig) { r.post(snapAt(monday)) }, "1 rounds"},
		{"nothing arrives", func(r *rig) {
			for i := range 5 {
				s := snapAt(monday.Add(time.Duration(i) * 30 * time.Second))
				s.Observed, s.Forwarded, s.P95 = 0, 0, 0
				r.post(s)
			}
		}, "latency p95</dt><dd>–<"},
		{"off", func(r *rig) {
			s := snapAt(monday)
			s.Limit.Algorithm = "off"
			r.post(s)
		}, "off"},
		{"unknown", func(r *rig) {
			s := snapAt(monday)
			s.Limit.Algorithm = "quantum"
			r.post(s)
		}, "0/s"},
		{"an hour each", func(r *rig) {
			s := snapAt(monday)
			s.Interval = time.Hour
			r.post(s)
		}, "every"},
		{"large", func(r *rig) {
			s := snapAt(monday)
			s.Observed, s.Forwarded, s.P95, s.Limit.Limit = 1e9, 1e9, 3600, 1e12
			r.post(s)
		}, "1,000,000,000/s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := start(t, defaults())
			c.tell(r)
			status, text := r.do("GET", "/", "")
			if status != 200 || !strings.Contains(strings.ToLower(text), c.want) || strings.Contains(text, "NaN") {
				t.Errorf("%d, the page lacks %q:\n%s", status, c.want, text)
			}
		})
	}
}

func TestWords(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{age(30 * time.Second), "30 s"}, {age(time.Minute), "1 min"}, {age(90 * time.Minute), "90 min"},
		{age(5 * time.Hour), "5 h"}, {age(72 * time.Hour), "3 days"},
	} {
		if c.got != c.want {
			t.Errorf("written %q, want %q", c.got, c.want)
		}
	}
	m := forecast.Mixture{Ahead: time.Minute}
	for i := range 10 {
		m.Weights = append(m.Weights, forecast.Weight{Expert: fmt.Sprintf("e_%d", i), Share: 0.1})
	}
	shares := sharesOf(m)
	sum := 0.0
	for _, p := range shares {
		sum += p.Share
	}
	if len(shares) != expertsShown+1 || shares[0].Name != "e 0" || sum < 99.9 || sum > 100.1 {
		t.Errorf("the shares are %+v", shares)
	}
}

// The page is drawn at most once a second.
func TestPageIsKept(t *testing.T) {
	r := start(t, defaults())
	now := time.Now()
	first := testkit.Must(r.draw(now))(t)
	r.post(snapAt(monday))
	if again, err := r.draw(now.Add(pageFresh - 1)); err != nil || string(again) != string(first) {
		t.Errorf("it is drawn again within a second, %v", err)
	}
	if later, err := r.draw(now.Add(pageFresh)); err != nil || string(later) == string(first) {
		t.Errorf("it is not drawn again after a second, %v", err)
	}
}

// Events that are written between reading the file and watching it are used.
func TestEventsOfTheStart(t *testing.T) {
	cfg := defaults()
	cfg.EventsFile = t.TempDir() + "/events.yaml"
	write(t, cfg.EventsFile, "- {name: sale, start: 2026-01-20, end: 2026-01-21}") // cfg.Events has the previous ones
	r := start(t, cfg)
	if log := r.log.String(); !strings.Contains(log, "Loaded the events") || !strings.Contains(log, "events=1") {
		t.Errorf("the log is\n%s", log)
	}
}

// A change of the file takes effect, and an invalid file does not.
func TestReload(t *testing.T) {
	cfg := defaults()
	cfg.EventsFile = t.TempDir() + "/events.yaml"
	write(t, cfg.EventsFile, "[]")
	r := start(t, cfg)
	feed(t, r.locked, monday, monday.Add(time.Hour), time.Minute)
	before := testkit.JSON(newState(r))
	write(t, cfg.EventsFile, "- {name: sale, start: 2026-01-20, end: 2026-01-21}")
	testkit.Eventually(t, "the events are known", func() bool { return strings.Contains(r.log.String(), "events=1") })
	if after := testkit.JSON(newState(r)); after != before {
		t.Errorf("with other events the state is\n%s, before\n%s", after, before)
	}
	write(t, cfg.EventsFile, "- {name: sale}")
	testkit.Eventually(t, "the fault is told", func() bool {
		return strings.Contains(r.log.String(), "Events cannot be reloaded") &&
			strings.Contains(r.log.String(), "[0].start: is missing")
	})
}
