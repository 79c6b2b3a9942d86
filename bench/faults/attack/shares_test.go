package attack

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"weir/bench/lab/rig"
	"weir/loadgen/record"
	"weir/proxy/rules/rule"
)

// beside returns the row of an attack on a share, and its baseline. statuses are those of one good
// request each, due half a second after the other.
func beside(statuses ...int) *row {
	of := func(a attack, statuses ...int) *row {
		r := harmless(a)
		r.load = &rig.LoadResult{Result: record.Result{Sent: uint64(len(statuses))}}
		for i, status := range statuses {
			r.load.Outcomes = append(r.load.Outcomes, rig.Outcome{Due: time.Duration(i) * calm / 2, Status: status})
		}
		return r
	}
	r := of(attack{name: "greedy", conns: 10, goal: 0.95}, statuses...)
	r.base = of(attack{name: "none"}, 200, 200)
	return r
}

func TestSuccess(t *testing.T) {
	for _, c := range []struct {
		name      string
		statuses  []int
		lead      time.Duration
		stored    bool
		delivered int64
		want      float64
	}{
		{name: "before the attack nothing counts", statuses: []int{503, 503, 200, 200}, want: 1},
		{name: "half of those during the attack", statuses: []int{200, 200, 503, 200}, want: 0.5},
		{name: "no answer is no success", statuses: []int{200, 200, 0, 200}, want: 0.5},
		{name: "attackers were first", statuses: []int{503, 503, 200, 200}, lead: time.Second, want: 0.5},
		{name: "nothing was due", want: 0},
		{name: "two of three that the limit refused",
			statuses: []int{200, 202, 202, 429}, lead: time.Second, stored: true, delivered: 2, want: 2.0 / 3},
	} {
		r := beside(c.statuses...)
		r.attack.lead, r.scene = c.lead, &scene{stored: c.stored}
		r.delivered.Store(c.delivered)
		if got := r.success(); got != c.want {
			t.Errorf("%s: the success is %v, want %v", c.name, got, c.want)
		}
	}
}

func TestReportShares(t *testing.T) {
	worse := func(r *row) { r.load.Outcomes[3].Status = 503 }
	busy := func(r *row) { r.load.Verdict = record.Invalid }
	for _, c := range []struct {
		name    string
		change  func(r *row)
		problem string
		remark  string
	}{
		{"as good as alone", func(*row) {}, "", ""},
		{"worse than the goal", worse, "greedy: success of the good client in % of the baseline: 50, expected ≥ 95", ""},
		{"worse, on a busy machine", func(r *row) { worse(r); busy(r) }, "Inconclusive", "its schedule"},
		{"worse, and a fault of the proxy", func(r *row) { worse(r); busy(r); r.panics = 1 }, "FAILED", "its schedule"},
		{"attackers may stay", func(r *row) { r.left = 5 }, "", ""},
		{"a crash", func(r *row) { r.crash, r.load = "killed", nil }, "killed", ""},
	} {
		r := beside(200, 200, 200, 200)
		c.change(r)
		shown(t, c.name, r, c.problem, c.remark)
	}
}

// The rules of scenes are valid, and what attackers send is a request.
func TestScenes(t *testing.T) {
	for _, s := range shares() {
		if s.rules != "" {
			if _, err := rule.Read([]byte(s.rules), rule.Options{Defers: s.stored}); err != nil {
				t.Errorf("the rules of %s are invalid: %v", s.attacks[0].name, err)
			}
		}
		for _, a := range s.attacks {
			if _, err := http.ReadRequest(bufio.NewReader(strings.NewReader(a.text))); err != nil {
				t.Errorf("%s sends no request: %v", a.name, err)
			}
		}
	}
}

// play plays an attack until a handler has served enough requests.
func play(t *testing.T, a attack, enough int, serve http.HandlerFunc) (f *fleet) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	calls := make(chan struct{}, enough)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serve(w, r)
		select {
		case calls <- struct{}{}:
		default:
		}
	}))
	defer srv.Close()
	f = newFleet(&a, srv.Listener.Addr().String())
	f.done.Go(func() { f.open(ctx, ctx) })
	for range enough {
		<-calls
	}
	cancel()
	f.done.Wait()
	return f
}

// Each request has a number of its own, and so has each connection; both come from one address.
func TestNumbers(t *testing.T) {
	seen := make(chan [3]string, 100)
	a := attack{conns: 2, opens: 1000, from: 1, text: message(usual, "X-N: "+number, "X-Own: "+own), then: closed(0)}
	play(t, a, 20, func(_ http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		select {
		case seen <- [3]string{r.Header.Get("X-N"), r.Header.Get("X-Own"), host}:
		default:
		}
	})
	close(seen)
	numbers, owns := map[string]bool{}, map[string]bool{}
	for s := range seen {
		if numbers[s[0]] || s[2] != "127.1.0.1" {
			t.Errorf("request %s comes twice, or from %s", s[0], s[2])
		}
		numbers[s[0]], owns[s[1]] = true, true
	}
	if len(owns) > 2 || !owns["1"] {
		t.Errorf("two connections have the numbers %v", owns)
	}
}

func TestStoreAndCancel(t *testing.T) {
	methods := make(chan string, 100)
	a := attack{conns: 1, opens: 1000, from: 1, text: message("POST /orders", "X-Shop: s"),
		then: (*attacker).storeAndCancel}
	f := play(t, a, 4, func(w http.ResponseWriter, r *http.Request) {
		methods <- r.Method + " " + r.URL.Path + " " + r.Header.Get("X-Shop")
		w.Header().Set("Location", "/deferred/1")
		w.WriteHeader(http.StatusAccepted)
	})
	for i, want := range []string{"POST /orders s", "DELETE /deferred/1 s", "POST /orders s", "DELETE /deferred/1 s"} {
		if got := <-methods; got != want {
			t.Errorf("request %d is %q, want %q", i, got, want)
		}
	}
	if f.snapshot().answers[http.StatusAccepted] < 3 {
		t.Errorf("the answers are %s", f.tally.summary())
	}
}

// The connection is reset while the handler is at work.
func TestAbort(t *testing.T) {
	a := attack{conns: 1, opens: 1000, from: 1, text: message(usual), then: (*attacker).abort}
	f := play(t, a, 2, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	if f.opened < 2 || len(f.answers) > 0 {
		t.Errorf("%d attackers with the answers %s", f.opened, f.tally.summary())
	}
}
