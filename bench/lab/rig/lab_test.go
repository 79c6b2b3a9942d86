package rig

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-json"

	"weir/bench/lab/result"
	"weir/bench/lab/result/resulttest"
	"weir/internal/test/testkit"
	"weir/loadgen/record"
)

func TestChoose(t *testing.T) {
	all := []Part{{Name: "one"}, {Name: "two"}, {Name: "three"}}
	for args, want := range map[string]string{"": "one two three", "three one": "one three", "one four": ""} {
		var names []string
		err := Catch(func() {
			for _, p := range Choose("counting", all, strings.Fields(args)) {
				names = append(names, p.Name)
			}
		})
		if strings.Join(names, " ") != want {
			t.Errorf("%q: %v, %v", args, names, err)
		}
		if want == "" {
			resulttest.RequireExit(t, args, err, 2, `counting takes any of one, two, three, not "four"`)
		}
	}
}

// What a part has started ends with it, the last first, before the next part begins.
func TestPlay(t *testing.T) {
	var out strings.Builder
	l := &Lab{Report: &result.Report{Out: &out}}
	var dir string
	part := func(name string, err error) Part {
		return Part{name, func() {
			dir = l.Dir
			for i := range 2 {
				l.Cleanup(func() { fmt.Fprintf(&out, "%s ends %d\n", name, i) })
			}
			l.AtMost(name, 2, 1)
			Check(err)
		}}
	}
	perform := func(parts ...Part) error {
		return l.Run(t.Context(), func() { l.RunExperiment(Experiment{"playing", "well", parts}, nil) })
	}
	if err := perform(part("a", nil), part("b", nil)); !errors.Is(err, result.ErrMissed) {
		t.Errorf("ends with %v", err)
	}
	if want := "a ends 1\na ends 0\nb ends 1\nb ends 0\n\n|"; !strings.HasPrefix(out.String(), want) ||
		!strings.Contains(out.String(), "a: 2, expected") {
		t.Errorf("%s", out.String())
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("its folder is left: %v", err)
	}
	broken := errors.New("broken")
	if err := perform(part("a", broken), part("b", nil)); !errors.Is(err, broken) || err.Error() != "a: broken" {
		t.Errorf("ends with %v", err)
	}
}

// The error of a step ends a part and says where it was; what runs beside it ends before.
func TestFailures(t *testing.T) {
	broken := errors.New("broken")
	reached := false
	err := Catch(func() {
		Section("outer", func() {
			Parallel(3, func(i int) {
				if i > 0 {
					Section(fmt.Sprint("inner ", i), func() { Must(0, broken) })
				}
			})
			reached = true
		})
	})
	if !errors.Is(err, broken) || err.Error() != "outer: inner 1: broken\ninner 2: broken" || reached {
		t.Errorf("ends with %v, went on: %t", err, reached)
	}
	if v := Must(7, nil); v != 7 {
		t.Errorf("got %d", v)
	}
	defer func() {
		if got := recover(); got != "bug: x" {
			t.Errorf("a defect ends as %v", got)
		}
	}()
	_ = Catch(func() { panic("bug: x") })
}

// A load that fails ends what is done beside it, and the other way round.
func TestDuring(t *testing.T) {
	var l Lab
	noLoadgen := l.Run(t.Context(), func() {
		l.During(func() { l.Wait(time.Now().Add(time.Hour)) }, Load{})
	})
	if noLoadgen == nil || !strings.Contains(noLoadgen.Error(), "run make build first") {
		t.Errorf("a load that cannot run: %v", noLoadgen)
	}
	broken := errors.New("broken")
	if err := l.Run(t.Context(), func() { l.During(func() { Check(broken) }) }); !errors.Is(err, broken) {
		t.Errorf("what is done beside fails: %v", err)
	}
}

// The steps of a load are its whole length.
func TestSteps(t *testing.T) {
	plan := Load{Steps: []RateStep{{15 * time.Second, 1000}, {500 * time.Millisecond, 2.5}}, Arrivals: "poisson"}.plan()
	text := string(testkit.Must(json.Marshal(plan))(t))
	testkit.Contains(t, text, `"duration":15.5,`, `"arrivals":"poisson"`, `"type":"steps"`,
		`{"duration":15,"rps":1000},{"duration":0.5,"rps":2.5}`)
}

// The fields of a load are sent with and without a body, whose type is added.
func TestFields(t *testing.T) {
	for body, want := range map[string]string{"": `"headers":{"X-A":"1"}`,
		"{}": `"headers":{"Content-Type":"application/json","X-A":"1"}`} {
		l := Load{Headers: map[string]string{"X-A": "1"}, Body: body}
		if text := string(testkit.Must(json.Marshal(l.plan()))(t)); !strings.Contains(text, want) || len(l.Headers) != 1 {
			t.Errorf("with the body %q there is no %s in %s", body, want, text)
		}
	}
}

func TestNumber(t *testing.T) {
	n := NumberArg{What: "restarts", Usual: 20, Least: 1, Most: 1000}
	for _, c := range []struct {
		args []string
		want int
	}{{nil, 20}, {[]string{"1"}, 1}, {[]string{"1000"}, 1000}, {[]string{"0"}, 0}, {[]string{"1001"}, 0},
		{[]string{"x"}, 0}, {[]string{"1", "2"}, 0}} {
		v := 0
		if err := Catch(func() { v = n.Read(c.args) }); v != c.want || (err == nil) != (c.want > 0) {
			t.Errorf("%v: %d, %v, want %d", c.args, v, err, c.want)
		}
	}
}

func TestVerdicts(t *testing.T) {
	same := func(v record.Validity) record.Validity { return v }
	if got := CountValidities([]record.Validity{"VALID", "INVALID", "VALID"}, same); got != "2 VALID, 1 INVALID" {
		t.Errorf("verdicts %q", got)
	}
	for _, c := range [][3]record.Validity{{"", "VALID", "VALID"}, {"INVALID", "VALID", "INVALID"},
		{"VALID", "DEGRADED", "DEGRADED"}} {
		if got := record.Worse(c[0], c[1]); got != c[2] {
			t.Errorf("the worse of %q and %q is %q, want %q", c[0], c[1], got, c[2])
		}
	}
}

const wrkSays = `Running 3s test @ http://127.0.0.1:1/api/test
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     2.47ms  710.34us   7.40ms   72.32%
    Req/Sec    25.22k     2.51k   28.66k    70.00%
  Latency Distribution
     50%  950.50us
     75%    2.87ms
     90%    3.32ms
     99%    4.52ms
  75276 requests in 3.00s, 12.20MB read
  Socket errors: connect 0, read 1, write 0, timeout 2
  Non-2xx or 3xx responses: 7
Requests/sec:  25086.52
Transfer/sec:      4.07MB
`

func TestParseWrk(t *testing.T) {
	r, err := parseWrk(wrkSays)
	want := WrkRun{Requests: 75276, PerSecond: 25086.52, P50: 950500 * time.Nanosecond, Failed: 10}
	if err != nil || r != want {
		t.Fatalf("got %+v, %v; want %+v", r, err, want)
	}
	if _, err := parseH2load("unable to connect"); err == nil {
		t.Error("h2load that fails is read")
	}
	calls, err := parseH2load("finished in 4.00s, 144784.50 req/s, 12.84MB/s\nrequests: 579136 total, 579264 started, " +
		"579136 done, 579130 succeeded, 6 failed, 0 errored, 0 timeout\nstatus codes: 579130 2xx, 0 3xx, 6 4xx, 0 5xx\n")
	if want := (WrkRun{Requests: 579136, PerSecond: 144784.5, Failed: 6}); err != nil || calls != want {
		t.Errorf("%+v, %v; want %+v", calls, err, want)
	}
	times, err := parseH2loadLog("1710\t200\t1500\n1711\t200\t20\n")
	if err != nil || !slices.Equal(times, []time.Duration{20 * time.Microsecond, 1500 * time.Microsecond}) {
		t.Errorf("the log of h2load: %v, %v", times, err)
	}
	for _, wrong := range []string{"", "1710\t200\n", "1710\t200\tx\n"} {
		if times, err := parseH2loadLog(wrong); err == nil {
			t.Errorf("%q is read as %v", wrong, times)
		}
	}
	if _, err := parseWrk("unable to connect"); err == nil {
		t.Fatal("nonsense was read as a result")
	}
}
