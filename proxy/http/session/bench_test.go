package session

import (
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"weir/proxy/http/exchange"
	"weir/proxy/limit"
	"weir/proxy/rules/decide"
	"weir/proxy/rules/refusal"
	"weir/proxy/rules/rule"
	"weir/proxy/store"
)

// A bench is a session with a limit of so many permits, a clock that stands
// still, and a target that answers at once.
type bench struct {
	env   Env
	s     *pair
	now   time.Time
	state limit.State
	fx    Effects

	shadows int
}

func newBench(tb testing.TB, permits int64) *bench {
	l, err := limit.New(limit.Config{Algorithm: limit.Fixed, Limit: permits, Window: 60})
	if err != nil {
		tb.Fatal(err)
	}
	b := &bench{now: time.Date(2026, 1, 19, 16, 30, 0, 0, time.UTC)}
	policy, settings := decide.NewPolicy(l), testSettings()
	settings.BufferBytesMax = 1 << 20
	id := []byte("abc-0-1")
	pages, err := refusal.New(nil)
	if err != nil {
		tb.Fatal(err)
	}
	b.env = Env{Settings: settings, Env: exchange.Env{
		Policy: func() *decide.Policy { return policy },
		Pages:  new(atomic.Pointer[refusal.Pages]),
		Ask: func(now time.Time, _ *exchange.Exchange, ask *store.Ask, ans *store.Answer) bool {
			granted, d := ask.Counters[0].Limit.Take(now.UnixMicro(), &b.state, 1, 1)
			ans.Granted, ans.Decisions, ans.Tightest = int(granted), append(ans.Decisions[:0], d), 0
			return true
		},
		Sheds:   true,
		Random:  rand.NewChaCha8([32]byte{}),
		Refused: func(time.Time, *decide.Refusal) []byte { return id },
	}}
	b.env.Pages.Store(pages)
	b.s = newPair(b.now, &b.env, netip.MustParseAddr("192.0.2.7"), false)
	return b
}

// exchange takes one request through the session, and fails unless the answer
// begins with want.
func (b *bench) exchange(tb testing.TB, request, answer []byte, want string) {
	b.s.HandleClient(b.now, request)
	fx := &b.fx
	b.s.MoveEffects(b.now, fx)
	b.shadows += len(fx.Matched.Shadows)
	if fx.Acquire != exchange.AcquireNone {
		b.s.Exchange.HandleAcquired(b.now, true)
		if b.s.MoveEffects(b.now, fx); len(fx.Upstream) == 0 {
			tb.Fatal("nothing goes to the target")
		}
		b.s.HandleUpstream(b.now, answer)
		b.s.MoveEffects(b.now, fx)
	}
	if len(fx.Client) < len(want) || string(fx.Client[:len(want)]) != want || fx.Close != CloseNone || fx.Read {
		tb.Fatalf("to the client: %q, close %d, read %t; nothing is unread", fx.Client, fx.Close, fx.Read)
	}
}

// The exchanges that are measured: as a browser and a small service would have
// them.
var exchanges = []struct {
	name            string
	permits         int64
	request, answer string
	want            string
	ids             bool
}{
	{"forwarded", 1 << 32,
		"GET /api/test?id=17 HTTP/1.1\r\nHost: example.com\r\nUser-Agent: bench/1.0\r\nAccept: " +
			"application/json\r\nX-Client-Id: c-17\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\nDate: Mon, 19 Jan 2026 " +
			"16:30:00 GMT\r\n\r\nOK", "HTTP/1.1 200 OK\r\n", false},
	{"forwarded with an id", 1 << 32,
		"GET /api/test?id=17 HTTP/1.1\r\nHost: example.com\r\nUser-Agent: bench/1.0\r\nAccept: " +
			"application/json\r\nX-Client-Id: c-17\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\nDate: Mon, 19 Jan 2026 " +
			"16:30:00 GMT\r\n\r\nOK", "HTTP/1.1 200 OK\r\n", true},
	{"forwarded with a body", 1 << 32,
		"POST /api/test HTTP/1.1\r\nHost: example.com\r\nContent-Type: application/json\r\nContent-Length: " +
			"16\r\n\r\n{\"hello\":\"world\"",
		"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nOK\r\n0\r\n\r\n", "HTTP/1.1 201 Created\r\n", false},
	{"refused", 1,
		"GET /api/test?id=17 HTTP/1.1\r\nHost: example.com\r\nUser-Agent: bench/1.0\r\nAccept: " +
			"application/json\r\nX-Client-Id: c-17\r\n\r\n",
		"", "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\n", false},
	{"refused to a browser", 1,
		"GET /api/test?id=17 HTTP/1.1\r\nHost: example.com\r\nUser-Agent: bench/1.0\r\nAccept: " +
			"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\nX-Client-Id: c-17\r\n\r\n",
		"", "HTTP/1.1 429 Too Many Requests\r\nContent-Type: text/html; charset=utf-8\r\n", false},
}

func TestNoAllocation(t *testing.T) {
	for _, x := range exchanges {
		b := newBench(t, x.permits)
		b.env.Settings.RequestID = x.ids
		request, answer := []byte(x.request), []byte(x.answer)
		if x.permits == 1 { // the one permit is for somebody else
			b.env.Policy().Limit.Take(b.now.UnixMicro(), &b.state, 1, 1)
		}
		if n := testing.AllocsPerRun(200, func() { b.exchange(t, request, answer, x.want) }); n != 0 {
			t.Errorf("%s: %v allocations", x.name, n)
		}
	}
}

// Rules cost no allocation either: two that match, one of them in shadow.
func TestNoAllocationWithRules(t *testing.T) {
	set, err := rule.Read([]byte(`rules:
- {id: a, key: [ip], limit: {algorithm: fixed, limit: 1000000, window: 60}}
- {id: b, key: ["header:X-Client-Id"], limit: {algorithm: token, capacity: 1000000, fillRate: 1}}
- {id: c, key: [path], limit: {algorithm: fixed, limit: 1, window: 60}, mode: shadow}`), rule.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, 1<<32)
	policy := b.env.Policy().With(set, "1")
	b.env.Policy = func() *decide.Policy { return policy }
	request, answer := []byte(exchanges[0].request), []byte(exchanges[0].answer)
	if n := testing.AllocsPerRun(200, func() { b.exchange(t, request, answer, exchanges[0].want) }); n != 0 ||
		b.shadows == 0 {
		t.Errorf("%v allocations, %d rules in shadow", n, b.shadows)
	}
}

func BenchmarkExchange(b *testing.B) {
	for _, x := range exchanges {
		b.Run(x.name, func(b *testing.B) {
			bench := newBench(b, x.permits)
			bench.env.Settings.RequestID = x.ids
			request, answer := []byte(x.request), []byte(x.answer)
			if x.permits == 1 {
				bench.env.Policy().Limit.Take(bench.now.UnixMicro(), &bench.state, 1, 1)
			}
			b.ReportAllocs()
			for b.Loop() {
				bench.exchange(b, request, answer, x.want)
			}
		})
	}
}
