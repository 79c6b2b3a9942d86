package sessiontest

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"weir/internal/net/http1"
	"weir/internal/net/loop/looptest"
	"weir/proxy/http/exchange"
	"weir/proxy/http/session"
	"weir/proxy/rules/decide"
	"weir/proxy/rules/pattern"
	"weir/proxy/store/simredis"
	"weir/proxy/targets/upstream"
)

// Bounds of the sessions, small so that they are often reached.
const (
	headMax    = 2 << 10
	bufferMax  = 2 << 10
	bodyMax    = 64 << 10
	patternLen = 1 << 18 // the bodies are parts of one pattern
)

// A profile describes a world. In a calm one there are no faults, and every request must be
// answered: by the target, unless the limiter refuses.
type profile struct {
	calm           bool
	callers        int // at the same time
	conns, waiters int // per target
	streams        int // connections of a target that may carry streams
	later          float64
	lateness       time.Duration
	storeAway      float64
	defers         float64 // chance that rules have refused requests stored
	unstored       float64 // chance of a request not to be stored
	connects       float64 // chance of each cause that makes connecting fail
	callerFaults   float64 // chance of a caller to misbehave
	serviceFaults  float64 // chance of a mishap, per exchange
	unrest         float64 // chance of a change, per tick
}

func (p *profile) String() string { return fmt.Sprintf("%+v", *p) }

func newProfile(r *rand.Rand) profile {
	p := profile{calm: r.IntN(4) == 0, callers: 2 + r.IntN(12), conns: 16, streams: 16, waiters: 64,
		lateness: time.Duration(1+r.IntN(200)) * time.Millisecond,
		defers:   []float64{0, 0.5, 1}[r.IntN(3)],
		later:    []float64{0, 0.5, 1}[r.IntN(3)], unrest: 0.02}
	if p.calm {
		return p
	}
	p.conns, p.waiters = 1+r.IntN(4), 1+r.IntN(6)
	p.streams = 1 + r.IntN(p.conns)
	p.unstored = []float64{0, 0.1, 0.5}[r.IntN(3)]
	p.storeAway = []float64{0, 0.02, 0.2}[r.IntN(3)]
	p.connects = []float64{0, 0.02, 0.2}[r.IntN(3)]
	p.callerFaults = []float64{0, 0.1, 0.4}[r.IntN(3)]
	p.serviceFaults = []float64{0, 0.1, 0.3}[r.IntN(3)]
	p.unrest = []float64{0.01, 0.1, 0.3}[r.IntN(3)]
	return p
}

func newWorld(seed uint64) *world {
	r := rand.New(rand.NewPCG(seed, 1))
	w := &world{World: looptest.World{Rand: r, Now: looptest.Epoch}, requests: make(map[uint64]*request),
		profile: newProfile(r),
		tally:   Tally{Seen: make(map[string]int), Statuses: make(map[int]int)}}
	w.Failed = w.failed
	exchanges := exchange.Settings{
		ResponseHead: http1.Limits{HeadBytes: headMax}, OwnPaths: pattern.NewPaths([]string{"/metrics", "/config/x"}),
		BodyBytesMax: bodyMax, OwnBytesMax: bodyMax, BufferBytesMax: bufferMax, BodyRateMin: int64(r.IntN(2)),
		BodyTimeout: 5 * time.Second, ConnectTimeout: connectTimeout,
		WaitTimeout: 2 * time.Second, TargetTimeout: 5 * time.Second, StreamTimeout: 6 * time.Second,
		PreserveHost: r.IntN(2) == 0, Upgrades: []string{"websocket"}, Pseudonym: "weir", Via: r.IntN(2) == 0,
		DeferPath: "/deferred/", DeferBodyMax: deferMax,
		Style: decide.Style{Families: decide.Families(r.IntN(2)) | decide.Families(r.IntN(2))<<1},
	}
	w.settings = session.Settings{
		Settings: exchanges, Head: http1.Limits{HeadBytes: headMax},
		HeadTimeout: 5 * time.Second, IdleTimeout: 8 * time.Second, TunnelTimeout: 20 * time.Second,
		DrainGrace:  200 * time.Millisecond,
		RequestsMax: r.IntN(4), AgeMax: time.Duration(r.IntN(2)) * 500 * time.Millisecond,
	}
	w.env = session.Env{Settings: &w.settings, Env: exchange.Env{Policy: func() *decide.Policy { return w.policy },
		Ask: w.ask, Defers: true,
		Overloaded: func(netip.Addr) bool { return w.short }, Refused: w.refused}}
	table, err := simredis.New(simredis.Config{Stripes: 1})
	if err != nil {
		panic(err)
	}
	w.table = table
	inFlight := func(t *target) int { return t.pool.InFlight() }
	w.targets = upstream.NewGroup(upstream.Balance(r.IntN(3)), 0, inFlight, r)
	w.pattern = make([]byte, patternLen)
	for i := range w.pattern {
		w.pattern[i] = byte(r.Uint32())
	}
	for range 1 + r.IntN(3) {
		w.addTarget()
	}
	w.swap()
	w.After(0, w.arrivals)
	w.After(tick, w.unrest)
	return w
}

// tick is how often something may change.
const tick = 50 * time.Millisecond

// arrivals adds callers until there are enough.
func (w *world) arrivals() {
	if w.quiet {
		return
	}
	if len(w.fronts) < w.profile.callers {
		w.newCaller()
	}
	w.After(w.Within(20*time.Millisecond), w.arrivals)
}

// unrest changes targets, limits or memory, by chance.
func (w *world) unrest() {
	if w.quiet {
		return
	}
	if w.odds(w.profile.unrest) {
		w.change()
	}
	w.After(tick, w.unrest)
}

func (w *world) change() {
	list := w.targets.Targets()
	some := list[w.IntN(len(list))]
	switch n := w.IntN(8); {
	case n == 0 && len(list) < 4:
		w.addTarget()
	case n == 1 && len(list) > 1:
		some.Value.retire()
	case n < 4:
		w.swap()
	case w.profile.calm:
	case n == 4:
		some.Checked(w.Now, upstream.CheckedDown, w.Now.Add(time.Second))
		w.soon(func() { some.Checked(w.Now, upstream.CheckedUp, w.Now) })
	case n == 5:
		some.Value.refuses = true
		w.soon(func() { some.Value.refuses = false })
	case n == 6:
		w.short = w.odds(0.3)
		w.shortage()
		w.soon(func() { w.short = false })
	default:
		w.drain()
	}
}

// shortage ends some sessions because memory is short.
func (w *world) shortage() {
	for _, f := range slices.Clone(w.fronts) {
		if !f.away && w.odds(0.2) {
			f.log.Note(w.Now, "shortage", 0, "")
			f.s.HandleShortage(w.Now)
			f.apply()
		}
	}
}

// drain drains all sessions, and those that begin within the next second.
func (w *world) drain() {
	w.draining = true
	for _, f := range w.fronts {
		f.log.Note(w.Now, "drain", 0, "")
		f.s.HandleDrain(w.Now)
		f.arm()
	}
	w.soon(func() { w.draining = false })
}

// soon calls do within a second.
func (w *world) soon(do func()) { w.After(w.Within(time.Second), do) }

// up and down return parts of the bodies of a request and of its answer.
func (w *world) up(id uint64, at, n int) []byte   { return w.part(2*id, at, n) }
func (w *world) down(id uint64, at, n int) []byte { return w.part(2*id+1, at, n) }

func (w *world) part(key uint64, at, n int) []byte {
	from := int(key*7919%(patternLen/4)) + at
	return w.pattern[from : from+n]
}
