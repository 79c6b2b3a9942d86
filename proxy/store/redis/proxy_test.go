package redis

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"weir/internal/test/relay"
	"weir/internal/test/testkit"
	"weir/proxy/store"
	"weir/proxy/store/redis/redistest"
)

// A wire is a relay between a client and a server, which spoils the connections that go
// through it.
type wire struct {
	*relay.Relay

	mu      sync.Mutex
	how     spoil
	free    time.Time // when the link has carried what was given to it
	carried int       // bytes, both ways
}

// A spoil says how a wire spoils its connections.
type spoil struct {
	delay   time.Duration // before each piece of a reply
	oneByte bool          // pieces are of one byte, both ways
	deaf    bool          // nothing reaches the server until it is over
	dumb    bool          // nothing comes back until it is over
	spared  int           // how many connections, the first ones, are not spoiled
	rate    int           // bytes per second that all of them together carry, both ways; 0: any
}

// pieceBytes is what a link with a rate carries at a time, for one connection after the
// other.
const pieceBytes = 1460

func newWire(t testing.TB, to string) *wire {
	t.Helper()
	w := &wire{Relay: testkit.Must(relay.New(func() string { return to }))(t)}
	w.SetFilter(w.pass)
	t.Cleanup(func() { w.set(spoil{}); w.Close() })
	return w
}

// throughWire returns a client of s, behind a wire.
func throughWire(t testing.TB, s *redistest.Server) (*testStore, *wire) {
	t.Helper()
	w, cfg := newWire(t, s.Addr()), config(s)
	cfg.Addrs = []string{w.Addr()}
	return newTestStore(t, cfg), w
}

// pass carries what was received on the connection with that number.
func (w *wire) pass(number int, answer bool, all []byte, write func([]byte) error) error {
	f := w.now(number)
	for f.deaf || f.dumb && answer {
		time.Sleep(time.Millisecond)
		f = w.now(number)
	}
	if answer {
		time.Sleep(f.delay)
	}
	most := len(all)
	switch {
	case f.oneByte:
		most = 1
	case f.rate > 0:
		most = pieceBytes
	}
	for piece := range slices.Chunk(all, most) {
		w.carry(len(piece), f.rate)
		if err := write(piece); err != nil {
			return err
		}
	}
	return nil
}

// carry counts n bytes, and takes the time that a link with that rate needs for them.
func (w *wire) carry(n, rate int) {
	w.mu.Lock()
	w.carried += n
	if rate == 0 {
		w.mu.Unlock()
		return
	}
	if now := time.Now(); w.free.Before(now) {
		w.free = now
	}
	w.free = w.free.Add(time.Duration(n) * time.Second / time.Duration(rate))
	wait := time.Until(w.free)
	w.mu.Unlock()
	time.Sleep(wait)
}

// now is how the connection with that number is spoiled.
func (w *wire) now(number int) spoil {
	w.mu.Lock()
	defer w.mu.Unlock()
	if number < w.how.spared {
		return spoil{}
	}
	return w.how
}

// sum is how many bytes it has carried.
func (w *wire) sum() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.carried
}

func (w *wire) set(f spoil) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.how = f
}

// A slow or chopped wire changes no answer.
func TestSlowWire(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		how            spoil
		asks, admitted int // of a limit of 50
	}{
		{spoil{delay: time.Millisecond}, 100, 50},
		{spoil{delay: 10 * time.Millisecond}, 100, 50},
		{spoil{delay: 100 * time.Millisecond}, 100, 50},
		{spoil{delay: 500 * time.Millisecond}, 1, 1}, // more would wait for each other, and longer than they may
		{spoil{oneByte: true}, 100, 50},
	} {
		t.Run(fmt.Sprintf("%+v", test.how), func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			c, w := throughWire(t, s)
			l := newLoop(t, c)
			l.ask(1, counter("first", fixed(1))) // the server knows the script from here on
			w.set(test.how)
			admitted := 0
			for _, ans := range asksInOneTurn(t, l, repeated(test.asks, counter("k", fixed(50)))).answers {
				admitted += ans.Granted
			}
			if n := c.Stats(); admitted != test.admitted || n.Undecided != 0 {
				t.Errorf("%d of %d admitted, want %d: %+v", admitted, test.asks, test.admitted, n)
			}
		})
	}
}

// Whatever happens on the wire: every ask has one answer, Redis counts as away
// until it is over, and nothing was charged twice.
func TestBrokenWire(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		how  spoil
		cut  bool
	}{
		{"cut, and no use to connect again", spoil{deaf: true}, true},
		{"black hole", spoil{deaf: true}, false},
		{"replies are held up", spoil{dumb: true}, false},
		{"too slow", spoil{delay: time.Second}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var w *wire
			o := newOutage(t, func(cfg *Config) {
				w = newWire(t, cfg.Addrs[0])
				cfg.Addrs[0] = w.Addr()
			})
			asks := 1
			o.l.ask(1, counter("k", fixed(1000)))
			w.set(test.how)
			if test.cut {
				w.Cut()
			}
			testkit.Eventually(t, "redis counts as away", func() bool {
				asks++
				if ans := o.l.ask(1, counter("k", fixed(1000))); ans.Granted != 1 {
					t.Errorf("refused: %+v", ans)
				}
				return !o.c.Connected()
			})
			w.set(spoil{})
			o.back()
			look := counter("k", fixed(1000))
			look.Cost = 0
			var ans store.Answer
			testkit.Eventually(t, "a decision is exact again",
				func() bool { ans = o.l.ask(1, look); return ans.Mode == store.Exact })
			if charged := 1000 - int(ans.Decision().Remaining); charged > asks {
				t.Errorf("%d were charged for %d asks: %+v", charged, asks, ans)
			}
		})
	}
}

// A call whose reply is lost has run, and is not made again.
func TestLostReplyIsNotRepeated(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, w := throughWire(t, s)
	l := newLoop(t, c)
	direct := newLoop(t, newTestStore(t, config(s)))
	lim := fixed(1000)
	l.ask(1, counter("k", lim)) // the server knows the script
	w.set(spoil{dumb: true})
	answered := make(chan store.Answer)
	go func() { answered <- l.ask(7, counter("k", lim)) }()
	look := counter("k", lim)
	look.Cost = 0
	left := func() int64 {
		ans := direct.ask(1, look)
		return ans.Decision().Remaining
	}
	testkit.Eventually(t, "the call has run", func() bool { return left() != 999 })
	w.Cut()
	w.set(spoil{})
	if ans := <-answered; ans.Granted != 7 || ans.Mode != store.FailOpen {
		t.Errorf("got %+v", ans)
	}
	testkit.Eventually(t, "it decides again", func() bool { return l.ask(1, look).Mode == store.Exact })
	if n := left(); n != 992 {
		t.Errorf("%d left, want 992", n)
	}
}
