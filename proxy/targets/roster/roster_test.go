package roster

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/program/metric"
	"weir/internal/test/testkit"
	"weir/proxy/targets/upstream"
)

// A fake is loops of which each has one view of every target.
type fake struct {
	views  map[*Target][]*LoopView
	listed int // how often they got a list
}

func (f *fake) SetTargets(list []*Target) {
	f.listed++
	if f.views == nil {
		f.views = make(map[*Target][]*LoopView)
	}
	for _, t := range list {
		if f.views[t] == nil {
			f.views[t] = []*LoopView{new(LoopView), new(LoopView)}
		}
	}
}

func (f *fake) Refresh() {}

func (f *fake) Views(t *Target) iter.Seq[*LoopView] { return slices.Values(f.views[t]) }

func (f *fake) Connected(*Target) {}

func (f *fake) Checked(*Target, upstream.CheckResult, time.Duration) {}

// A target is down when a loop could not connect and none has a connection; numbers stay
// with a target, and whatever everybody may read tells nothing else of it.
func TestStatus(t *testing.T) {
	loops := new(fake)
	l := New(Config{Loops: loops, Log: new(testkit.Log).Logger()})
	a, b := &Target{URL: "http://a.test:1", Addr: "127.0.0.1:1"}, &Target{URL: "http://b.test:1", Addr: "127.0.0.2:1"}
	l.Set([]*Target{a, b})
	l.Set([]*Target{b, {URL: a.URL, Addr: a.Addr}}) // the same again
	views := loops.views[a]
	views[0].Failed.Store(true)
	views[0].Fail(time.Unix(1, 0), "timeout")
	for _, step := range []struct {
		idle int64
		want string
	}{{0, "2 up , 1 down timeout"}, {1, "2 up , 1 up "}} {
		views[1].Usable.Store(step.idle)
		var got []string
		for _, st := range l.Status() {
			got = append(got, fmt.Sprint(st.Number, " ", st.Status, " ", st.Cause))
		}
		if told := strings.Join(got, ", "); told != step.want {
			t.Errorf("with %d idle connections: %s, want %s", step.idle, told, step.want)
		}
	}
	views[1].Usable.Store(0)
	var text strings.Builder
	set := metric.New()
	l.Register(set)
	set.Write(&text)
	if up := l.Up(); fmt.Sprint(up) != "map[1:false 2:true]" ||
		!strings.Contains(text.String(), `ratelimiter_upstream_up{target="1"} 0`) ||
		strings.Contains(text.String(), "127.0.0") {
		t.Errorf("health tells %v, metrics %s", up, text.String())
	}
}

// Each address of a name is a target. A lookup that fails takes none away.
func TestNames(t *testing.T) {
	loops, log := new(fake), new(testkit.Log)
	l := New(Config{Loops: loops, Log: log.Logger(), LookupInterval: time.Hour})
	l.Set([]*Target{{URL: "http://svc.test:80", Addr: "svc.test:80"}})
	addrs := func() (list []string) {
		for _, spec := range l.All() {
			list = append(list, spec.Addr)
		}
		return list
	}
	for _, step := range []struct {
		found []netip.Addr
		err   error
		want  string
	}{
		{nil, errors.New("timeout"), "[svc.test:80]"},
		{[]netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")}, nil, "[10.0.0.1:80 10.0.0.2:80]"},
		{nil, errors.New("timeout"), "[10.0.0.1:80 10.0.0.2:80]"},
	} {
		l.looked("svc.test", upstream.LookupResult{Addrs: step.found, Unknown4: step.err != nil, Unknown6: step.err != nil},
			step.err)
		if got := fmt.Sprint(addrs()); got != step.want {
			t.Errorf("after %v, %v: %s, want %s", step.found, step.err, got, step.want)
		}
	}
	if loops.listed != 2 || log.Count("does not resolve") != 2 || log.Count("resolves again") != 1 {
		t.Errorf("the loops got %d lists; logged %s", loops.listed, log)
	}
}

// What is an address, or this machine, is never looked up.
func TestHostOf(t *testing.T) {
	for addr, want := range map[string]string{
		"10.0.0.1:80": "", "[fd00::1]:80": "", "[fe80::1%eth0]:80": "", "localhost:80": "", "a.localhost:80": "",
		"svc:80": "svc", "svc.example.com:80": "svc.example.com", "localhost.example.com:80": "localhost.example.com",
	} {
		if host, port := (&Target{Addr: addr}).hostOf(); host != want || port != "80" {
			t.Errorf("%s: %q %q, want %q", addr, host, port, want)
		}
	}
}

// An error that both lookups of a name have in common is reported once.
func TestLookupFailureIsToldOnce(t *testing.T) {
	n := &names{lookup: func(context.Context, string, string) ([]netip.Addr, error) {
		return nil, &net.DNSError{Err: "no such host", Name: "svc.test"}
	}}
	if _, err := n.look(t.Context(), "svc.test"); err == nil || err.Error() != "lookup svc.test: no such host" {
		t.Errorf("told %q", err)
	}
}

// Each change of state is a line, and what fails within a second is counted in it.
func TestWatch(t *testing.T) {
	const (
		up   = upstream.Up
		out  = upstream.Ejected
		down = upstream.Down
	)
	var w StateLogger
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log,
		&slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
	var was loggedState
	now := time.Unix(0, 0)
	for i, step := range []struct {
		is   targetState
		want string
	}{
		{targetState{status: up}, ""},
		{targetState{upstream.Draining, "", 0, ""}, ""},
		{targetState{status: up}, ""},
		{targetState{down, "refused", 3, "refused"}, `level=WARN msg="Target is down" cause=refused failures=3`},
		{targetState{down, "refused", 9, "refused"}, ""},
		{targetState{down, "timeout", 10, "timeout"}, `level=WARN msg="Target is down" cause=timeout failures=7`},
		{targetState{up, "", 12, "timeout"}, `level=INFO msg="Target is up again" after=3s failures=2`},
		{targetState{up, "", 12, "timeout"}, ""},
		{targetState{up, "", 13, "refused"}, `level=WARN msg="Target failed and is up again" cause=refused failures=1`},
		{targetState{out, "answered 503", 14, "answered 503"},
			`level=WARN msg="Target gets no requests for a while because it answers with errors" cause="answered 503" failures=1`},
		{targetState{upstream.Probing, "answered 503", 14, "answered 503"}, ""},
		{targetState{out, "answered 503", 15, "answered 503"}, ""},
		{targetState{up, "", 15, "answered 503"}, `level=INFO msg="Target is up again" after=3s failures=1`},
	} {
		now = now.Add(time.Second)
		was = w.note(now, logger, was, step.is)
		if have := strings.TrimSpace(log.String()); have != step.want {
			t.Errorf("step %s: logged %s\nwant %s", strconv.Itoa(i), have, step.want)
		}
		log.Reset()
	}
}
