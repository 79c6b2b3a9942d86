package pacing

import (
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"weir/bench/lab/result"
	"weir/bench/lab/rig"
	"weir/internal/test/testkit"
	"weir/loadgen/pace"
	"weir/loadgen/record"
)

const ms = time.Millisecond

// at are times after settled, which is left out.
func at(list ...time.Duration) []time.Duration {
	times := []time.Duration{0, settled / 2}
	for _, d := range list {
		times = append(times, settled+d)
	}
	return times
}

// us are times in microseconds.
func us(p50, p99, most float64) record.Summary {
	return record.Summary{P50: p50 / 1e6, P99: p99 / 1e6, Max: most / 1e6}
}

func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		arrivals, due []time.Duration
		told          bool
		want          judgement
	}{
		"punctual": {at(0, 10*ms, 20*ms), at(0, 10*ms, 20*ms), true, judgement{Requests: 5}},
		"all late by the same": {at(2*ms, 12*ms, 22*ms), at(0, 10*ms, 20*ms), true,
			judgement{Requests: 5, Late: us(2000, 2000, 2000)}},
		"which nobody knows without the start": {at(2*ms, 12*ms, 22*ms), at(0, 10*ms, 20*ms), false, judgement{Requests: 5}},
		"one late": {at(0, 13*ms, 20*ms, 30*ms), at(0, 10*ms, 20*ms, 30*ms), true,
			judgement{Requests: 6, Gap: us(3000, 3000, 3000), Late: us(0, 3000, 3000)}},
		"too slow": {at(0, 20*ms, 40*ms), at(0, 10*ms, 20*ms), false,
			judgement{Requests: 5, RateError: -0.5, Gap: us(10000, 10000, 10000), Late: us(10000, 20000, 20000)}},
		"some are missing": {at(0, 10*ms), at(0, 10*ms, 20*ms), true, judgement{Requests: 4, Missing: 1}},
		"one too many":     {at(0, 10*ms, 20*ms), at(0, 10*ms), true, judgement{Requests: 5}},
		"nothing":          {nil, at(0, 10*ms), true, judgement{Missing: 4}},
		"one":              {at(0), at(0), true, judgement{Requests: 3}},
	} {
		if got := judge(c.arrivals, c.due, c.told); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// However requests are cut into pieces, each is counted once, when it ends.
func TestCount(t *testing.T) {
	const request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	text := []byte(strings.Repeat(request, 3) + "GET / HTTP/1.1\r\r\n\r\n")
	for cut := range text {
		first, state := count(text[:cut], 0)
		second, end := count(text[cut:], state)
		if first != cut/len(request) && cut < 3*len(request) || first+second != 4 || end != 0 {
			t.Errorf("cut at %d: %d and %d requests end, state %d", cut, first, second, end)
		}
	}
}

// The schedule that arrivals are compared with is that of our generators.
func TestSchedule(t *testing.T) {
	uniform := schedule(1000, 2*time.Second, pace.Uniform)
	if len(uniform) != 2000 || uniform[0] != 500*time.Microsecond || uniform[1999] != 2*time.Second-500*time.Microsecond {
		t.Errorf("uniform: %d requests", len(uniform))
	}
	for i, d := range even(2000, 1000) {
		if d != uniform[i] {
			t.Fatalf("request %d of peers is due at %v, of ours at %v", i, d, uniform[i])
		}
	}
	poisson := schedule(1000, 2*time.Second, pace.Poisson)
	if math.Abs(float64(len(poisson))-2000) > 5*math.Sqrt(2000) {
		t.Errorf("poisson: %d requests", len(poisson))
	}
}

// The recorder answers whoever asks, and its times lie between the one before
// sending and the one after the answer.
func TestRecorder(t *testing.T) {
	r := testkit.Must(startRecorder())(t)
	defer r.sockets.Stop()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for i := range 5 {
		before := time.Now().UnixNano()
		resp := testkit.Must(client.Get(url(r.addr)))(t)
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		after := time.Now().UnixNano()
		if err != nil || string(text) != "OK" {
			t.Fatalf("answered %q, %v", text, err)
		}
		stamps, unstamped := r.take()
		if len(stamps) != 1 || unstamped != 0 || stamps[0] < before || stamps[0] > after {
			t.Errorf("request %d: recorded %v (%d without the kernel's time), sent after %d and answered by %d", i, stamps,
				unstamped, before, after)
		}
	}
}

// A request in two pieces came when its last piece did; two in one piece came
// together.
func TestRecorderOfPieces(t *testing.T) {
	r := testkit.Must(startRecorder())(t)
	defer r.sockets.Stop()
	c := testkit.Must(net.Dial("tcp", r.addr))(t)
	defer c.Close()
	const request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	answers := make([]byte, 3*len(answerText))
	if _, err := io.WriteString(c, request[:10]); err != nil {
		t.Fatal(err)
	}
	middle := time.Now().UnixNano()
	for _, text := range []string{request[10:] + request, request} {
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.ReadFull(c, answers); err != nil {
		t.Fatal(err)
	}
	stamps, _ := r.take()
	if len(stamps) != 3 || stamps[0] < middle {
		t.Errorf("recorded %v, the first piece was sent before %d", stamps, middle)
	}
}

// The kernel switches the times of packets on and off in the background, with the first socket that
// asks for them and the last. A recorder that has started has them. The pauses let the kernel switch
// them off again: without the wait in startRecorder every sixth start or so then begins without them.
func TestRecorderStartsWithKernelTimes(t *testing.T) {
	for i := range 30 {
		time.Sleep(20 * time.Millisecond)
		r := testkit.Must(startRecorder())(t)
		if _, err := r.precision(1, 0); err != nil {
			t.Errorf("start %d: %v", i, err)
		}
		r.sockets.Stop()
	}
}

func TestPrecision(t *testing.T) {
	r := testkit.Must(startRecorder())(t)
	defer r.sockets.Stop()
	after, err := r.precision(20, 0)
	if err != nil || len(after) != 20 {
		t.Fatalf("%d probes, %v", len(after), err)
	}
	for i, d := range after {
		if d < 0 {
			t.Errorf("probe %d came %v before it was sent", i, -d)
		}
	}
}

func TestTable(t *testing.T) {
	var out strings.Builder
	l := &lab{Lab: &rig.Lab{Report: &result.Report{Out: &out}}}
	lag := us(1, 2, 3)
	l.table(1000, [][]run{
		{{name: "ours", own: own{lag: &lag, says: "VALID"}, judgement: judgement{Requests: 10, Gap: us(1, 2, 3)}},
			{name: "ours", own: own{lag: &lag, says: "INVALID"}, judgement: judgement{Requests: 10, RateError: 0.5,
				Gap: us(4, 5, 6)}}},
		{{name: "theirs", judgement: judgement{Requests: 9, Missing: 1}}},
	})
	testkit.Contains(t, out.String(),
		"| ours | 10 | 0 | +25.0000 % | 2 | 4 | 6 | 0 | 0 | 0 | 1 | 2 | 3 | 1 VALID, 1 INVALID |\n",
		"| theirs | 9 | 1 | +0.0000 % | 0 | 0 | 0 | 0 | 0 | 0 |  |  |  |  |\n")
}

// A peer must end without an error. One that is behind is killed.
func TestPeer(t *testing.T) {
	run := func(span time.Duration, command ...string) error {
		var l rig.Lab
		return l.Run(t.Context(), func() { (&generator{command: command}).run(&l, "", 0, span) })
	}
	for _, c := range []struct {
		command string
		span    time.Duration
		good    bool
	}{{"exit 0", time.Minute, true}, {"exit 3", time.Minute, false}, {"exec no-such-program", time.Minute, false},
		{"exec sleep 600", ms - lateMax, true}} {
		if err := run(c.span, "sh", "-c", c.command); (err == nil) != c.good {
			t.Errorf("%s: error %v", c.command, err)
		}
	}
	if run(0, "no-such-program") == nil {
		t.Error("a program that is not there ran")
	}
}
