package drive

import (
	"bufio"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/loadgen/record"
)

// shaped is a test of the given profile on addr.
func shaped(addr, kind string, seconds float64, params map[string]any) test {
	config := load(addr, 1, seconds)
	config.Profile = map[string]any{"type": kind, "params": params}
	return config
}

// Every profile is sent as it is planned: as many requests as the schedule has,
// and the books add up.
func TestProfilesAreSent(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "t.csv")
	testkit.WriteFile(t, trace, "t,count\n0,40\n0.1,160\n0.2,40\n")
	type params = map[string]any
	for kind, c := range map[string]struct {
		params params
		want   uint64 // 0: random
	}{
		"burst":      {params{"baseRps": 200, "spikeRps": 1000, "spikeDuration": 0.1, "spikePeriod": 0.15}, 220},
		"sinusoidal": {params{"minRps": 0, "maxRps": 1600, "period": 0.1}, 240},
		"poisson":    {params{"averageRps": 800}, 0},
		"ddos": {params{"minRps": 600, "maxRps": 600, "maxSpikeDuration": 0.1, "minIdleTime": 0,
			"maxIdleTime": 0.1}, 180},
		"ramp": {params{"startRps": 0, "endRps": 1600}, 240},
		"steps": {params{"steps": []params{{"rps": 400, "duration": 0.1}, {"rps": 0, "duration": 0.1},
			{"rps": 1500, "duration": 0.1}}}, 190},
		"trace": {params{"file": trace}, 240},
	} {
		t.Run(kind, func(t *testing.T) {
			b, s := against(t, answerAll(ok))
			b.loops = 2
			r := b.run(shaped(s.addr, kind, 0.3, c.params))
			if c.want > 0 && r.Due != c.want || r.Due < 100 || r.Success != r.Due || s.requests.Load() != int64(r.Due) {
				t.Errorf("%d due, %d succeeded, the server saw %d, want %d", r.Due, r.Success, s.requests.Load(), c.want)
			}
			if r.ScheduleHash == "" || r.Shards[0] != (record.Shard{Of: 1}) {
				t.Errorf("schedule %q of shards %+v", r.ScheduleHash, r.Shards)
			}
		})
	}
}

// Peaks of the schedule are logged when they have begun, at most one per second, the last one if
// there are several; and they are in the result.
func TestPeaks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	bursts := func(addr string) test {
		return shaped(addr, "burst", 1.9, map[string]any{"baseRps": 10, "spikeRps": 50, "spikeDuration": 0.1,
			"spikePeriod": 0.4})
	}
	r := b.run(bursts(serve(t, answerAll(ok)).addr))
	if !strings.Contains(b.log.String(), "Burst peak started at t=") {
		t.Errorf("no peak is told:\n%s", b.log.String())
	}
	want := []record.Peak{{Start: 0.3, End: 0.4, Rps: 50}, {Start: 0.7, End: 0.8, Rps: 50},
		{Start: 1.1, End: 1.2, Rps: 50}, {Start: 1.5, End: 1.6, Rps: 50}}
	if !slices.Equal(r.Peaks, want) {
		t.Errorf("the result has the peaks %v, want %v", r.Peaks, want)
	}

	var told testkit.Log
	start := time.Unix(1_800_000_000, 0)
	c := &conductor{Run: &Run{plan: planOf(t, bursts("127.0.0.1:80")), log: slog.New(slog.NewTextHandler(&told, nil))},
		start: start}
	for _, step := range []struct {
		ms   int
		want string // told by then
	}{{299, ""}, {300, "0.3"}, {310, "0.3"}, {750, "0.3"}, {1299, "0.3"}, {1300, "0.3 1.1"}, {1899, "0.3 1.1"},
		{2500, "0.3 1.1 1.5"}, {4000, "0.3 1.1 1.5"}} {
		c.logPeak(start.Add(time.Duration(step.ms) * time.Millisecond))
		var got []string
		for line := range strings.Lines(told.String()) {
			if _, rest, ok := strings.Cut(line, "Burst peak started at t="); ok && strings.Contains(rest, "(target RPS=50)") {
				at, _, _ := strings.Cut(rest, "s ")
				got = append(got, at)
			}
		}
		if strings.Join(got, " ") != step.want {
			t.Errorf("after %d ms the peaks at %v are told, want %s", step.ms, got, step.want)
		}
	}
}

func TestPlain(t *testing.T) {
	for _, c := range []struct {
		v      float64
		digits int
		want   string
	}{{30, 3, "30"}, {4.1721677, 3, "4.172"}, {500, 1, "500"}, {752.875, 1, "752.9"}, {0.04, 1, "0"}} {
		if got := plain(c.v, c.digits); got != c.want {
			t.Errorf("%v is written %s, want %s", c.v, got, c.want)
		}
	}
}

// A notebook keeps what a server was asked.
type notebook struct {
	mu    sync.Mutex
	lines []string
}

// note returns how often the line has been noted.
func (n *notebook) note(line string) (times int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, line)
	for _, one := range n.lines {
		if one == line {
			times++
		}
	}
	return times
}

func (n *notebook) sorted() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Sorted(slices.Values(n.lines))
}

// noting answers every request and notes its client and body.
func noting(n *notebook) func(c *served) {
	return func(c *served) {
		for {
			r, err := http.ReadRequest(c.in)
			if err != nil {
				return
			}
			body := make([]byte, r.ContentLength)
			if _, err := bufio.NewReader(r.Body).Read(body); err != nil {
				return
			}
			n.note(fmt.Sprintf("%s %s %s", r.URL.Path, r.Header.Get("X-Client-Id"), body))
			c.say(ok)
		}
	}
}

// Several generators with several loops send what one sends alone: the same
// requests, each once.
func TestShardsSendOneSchedule(t *testing.T) {
	t.Parallel()
	send := func(shards, loops int) []string {
		var n notebook
		s := serve(t, noting(&n))
		hashes := map[string]bool{}
		for i := range shards {
			b := newBench(t)
			b.loops = loops
			config := load(s.addr, 400, 0.25)
			config.URL = "http://" + s.addr + `/{{pick "a" "b"}}`
			config.Profile["arrivals"] = "poisson"
			config.Shard = map[string]int{"index": i, "of": shards}
			config.Options = map[string]any{
				"method": "POST", "headers": map[string]string{"X-Client-Id": "client-{{random 1 1000}}"}, "body": "{{counter}}",
			}
			r := b.run(config)
			hashes[r.ScheduleHash] = true
			if r.Success != r.Due || r.Shards[0] != (record.Shard{Index: i, Of: shards}) {
				t.Errorf("shard %d of %d: %d of %d succeeded, shards %v", i, shards, r.Success, r.Due, r.Shards)
			}
		}
		if len(hashes) != 1 {
			t.Errorf("the shards have the hashes %v", hashes)
		}
		return n.sorted()
	}
	whole := send(1, 1)
	if len(whole) < 60 || len(slices.Compact(slices.Clone(whole))) != len(whole) {
		t.Fatalf("one generator sends %q", whole)
	}
	if parts := send(2, 2); !slices.Equal(whole, parts) {
		t.Errorf("two generators send\n%q\none sends\n%q", parts, whole)
	}
}

// A request whose connection the server has closed while it was idle is sent again, and is the same
// request. It is an error only if the close is noticed late, as on a machine that stalls.
func TestSentAgainIsTheSame(t *testing.T) {
	var all, died notebook
	b, s := against(t, func(c *served) {
		// After the first request of a connection the next one that is new dies with it: each
		// dies once at most, so that none is sent sentMax times.
		for first := true; ; first = false {
			r, err := http.ReadRequest(c.in)
			if err != nil {
				return
			}
			number := r.Header.Get("X-N")
			if again := all.note(number) > 1; !first && !again {
				died.note(number)
				return
			}
			c.say(ok)
		}
	})
	config := load(s.addr, 200, 60)
	config.Concurrency = 10
	config.Options = map[string]any{"headers": map[string]string{"X-N": "{{counter}}"}}
	run := b.start(config)
	testkit.Eventually(t, "some requests come again", func() bool {
		lines := all.sorted()
		return len(lines)-len(slices.Compact(lines)) >= 10
	})
	run.Stop()
	r := b.finish(run)
	lost := slices.Compact(died.sorted())
	times := map[string]int{}
	for _, number := range all.sorted() {
		times[number]++
	}
	lost = slices.DeleteFunc(lost, func(number string) bool { return times[number] > 1 })
	closed := r.ErrorsByReason["closed"]
	if r.Retried < 10 || uint64(len(lost)) > closed+r.Abandoned {
		t.Errorf("%d were sent again, and of requests %q, which were not, %d are errors and %d abandoned", r.Retried,
			lost, closed, r.Abandoned)
	}
	if closed > 0 && r.LatencyErrors.Min < 0.1 {
		t.Errorf("a request failed %v s after it was due, before the end of its connection could be noticed late",
			r.LatencyErrors.Min)
	}
	if r.Success+closed+r.Abandoned != r.Sent || r.Success < closed {
		t.Errorf("%d of %d succeeded, errors %v", r.Success, r.Sent, r.ErrorsByReason)
	}
}

// Without keep-alive each connection carries its own request.
func TestTemplatesOnFreshConnections(t *testing.T) {
	var n notebook
	b, s := against(t, noting(&n))
	config := load(s.addr, 200, 0.25)
	config.Options = map[string]any{"keepAlive": false, "method": "POST", "body": "{{counter}}"}
	if r := b.run(config); r.Success != 50 {
		t.Errorf("%d succeeded, errors %v", r.Success, r.ErrorsByReason)
	}
	if seen := slices.Compact(n.sorted()); len(seen) != 50 {
		t.Errorf("the server was asked %q", seen)
	}
}

// A run stopped in the middle of a random schedule accounts for all of it.
func TestStopOfPoisson(t *testing.T) {
	b, s := against(t, answerAll(ok))
	run := b.start(shaped(s.addr, "poisson", 60, map[string]any{"averageRps": 400}))
	testkit.Eventually(t, "requests", func() bool { return s.requests.Load() > 200 })
	run.Stop()
	r := b.finish(run)
	if r.Success != r.Sent || r.RateError > 0.01 && r.Lag.Max < 0.1 {
		t.Errorf("%d of %d succeeded, %d due, rate error %v", r.Success, r.Sent, r.Due, r.RateError)
	}
}

// While a run waits for a start that is far ahead its status says so.
func TestFarStart(t *testing.T) {
	b, s := against(t, answerAll(ok))
	config := load(s.addr, 100, 1)
	config.StartAt = time.Now().Add(300 * 24 * time.Hour).UTC().Format(time.RFC3339)
	run := b.start(config)
	if st := run.Status(); !st.Running || st.Phase != record.PhaseWaiting || st.Elapsed != 0 {
		t.Errorf("status before the start: %+v", st)
	}
	testkit.Eventually(t, "a word of it in the log", func() bool {
		return strings.Contains(b.log.String(), "Waiting for the start at "+config.StartAt)
	})
}
