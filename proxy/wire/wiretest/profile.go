package wiretest

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
	"weir/proxy/targets/gate"
	"weir/proxy/targets/upstream"
)

// Bounds of the sessions, small so that they are often reached.
const (
	headMax    = 2 << 10
	bufferMax  = 2 << 10
	bodyMax    = 64 << 10
	patternLen = 1 << 18 // the bodies are parts of one pattern
)

// A Profile describes a world. In a calm one there are no faults, and every request must be
// answered: by the target, unless the limiter refuses.
type Profile struct {
	Conns, Waiters int              // per target
	StreamShare    float64          // part of the connections of a target that may carry streams
	Balance        upstream.Balance // of the targets
	Loops          int              // event loops
	Gate           gate.Mode        // off in a calm world
	Seed           uint64           // of the proxy's choices

	calm          bool
	callers       int // at the same time
	later         float64
	lateness      time.Duration
	storeAway     float64
	defers        float64 // chance that rules have refused requests stored
	unstored      float64 // chance of a request not to be stored
	connects      float64 // chance of each cause that makes connecting fail
	callerFaults  float64 // chance of a caller to misbehave
	serviceFaults float64 // chance of a mishap, per exchange
	unrest        float64 // chance of a change, per tick
}

func (p *Profile) String() string { return fmt.Sprintf("%+v", *p) }

func newProfile(r *rand.Rand) Profile {
	p := Profile{calm: r.IntN(4) == 0, callers: 2 + r.IntN(12), Conns: 32, StreamShare: 1, Waiters: 64,
		lateness: time.Duration(1+r.IntN(200)) * time.Millisecond,
		defers:   []float64{0, 0.5, 1}[r.IntN(3)],
		later:    []float64{0, 0.5, 1}[r.IntN(3)], unrest: 0.02,
		Balance: upstream.Balance(r.IntN(3)), Loops: 1 + r.IntN(2), Seed: r.Uint64()}
	if p.calm {
		return p
	}
	p.Conns, p.Waiters = 1+r.IntN(8), 1+r.IntN(6)
	p.StreamShare = r.Float64()
	p.Gate = gate.Mode(r.IntN(3))
	p.unstored = []float64{0, 0.1, 0.5}[r.IntN(3)]
	p.storeAway = []float64{0, 0.02, 0.2}[r.IntN(3)]
	p.connects = []float64{0, 0.02, 0.2}[r.IntN(3)]
	p.callerFaults = []float64{0, 0.1, 0.4}[r.IntN(3)]
	p.serviceFaults = []float64{0, 0.1, 0.3}[r.IntN(3)]
	p.unrest = []float64{0.01, 0.1, 0.3}[r.IntN(3)]
	return p
}

// New returns the world of a seed. It must be called in a bubble of package synctest.
func New(seed uint64) (*World, error) {
	r := rand.New(rand.NewPCG(seed, 1))
	w := &World{Kernel: looptest.NewKernel(r), Profile: newProfile(r), requests: make(map[uint64]*request),
		fronts: make(map[netip.AddrPort]*ClientView), services: make(map[netip.AddrPort]*service),
		Tally: Tally{Seen: make(map[string]int), Statuses: make(map[int]int)}}
	w.Failed, w.Reach = w.failed, w.reach
	if !w.Profile.calm {
		w.Faults = []float64{0, 0.01}[r.IntN(2)]
	}
	w.Listener = w.NewListener()
	w.Settings = settings(r)
	keys, err := simredis.NewStore(simredis.Config{Stripes: 1})
	if err != nil {
		return nil, err
	}
	w.Store = &memory{Store: keys, w: w}
	for i := range 1 + r.IntN(3) {
		w.clients = append(w.clients, netip.AddrFrom4([4]byte{192, 0, 2, byte(7 + i)}))
	}
	w.pattern = make([]byte, patternLen)
	for i := range w.pattern {
		w.pattern[i] = byte(r.Uint32())
	}
	for range 1 + r.IntN(3) {
		w.addTarget()
	}
	w.swap()
	return w, nil
}

// settings draws those of the sessions.
func settings(r *rand.Rand) session.Settings {
	return session.Settings{
		Settings: exchange.Settings{
			ResponseHead: http1.Limits{HeadBytes: headMax}, OwnPaths: pattern.NewPaths([]string{"/config/limits"}),
			BodyBytesMax: bodyMax, OwnBytesMax: bodyMax, BufferBytesMax: bufferMax, BodyRateMin: int64(r.IntN(2)),
			BodyTimeout: 5 * time.Second, ConnectTimeout: connectTimeout,
			WaitTimeout: 2 * time.Second, TargetTimeout: 5 * time.Second, StreamTimeout: 6 * time.Second,
			PreserveHost: r.IntN(2) == 0, Upgrades: []string{"websocket"}, Pseudonym: "weir", Via: r.IntN(2) == 0,
			DeferPath: "/deferred/", DeferBodyMax: deferMax,
			Style: decide.RefusalStyle{LimitFields: decide.LimitFields(r.IntN(2)) | decide.LimitFields(r.IntN(2))<<1},
		},
		Head:        http1.Limits{HeadBytes: headMax},
		HeadTimeout: 5 * time.Second, IdleTimeout: 8 * time.Second, TunnelTimeout: 20 * time.Second,
		DrainGrace:  200 * time.Millisecond,
		RequestsMax: r.IntN(4), AgeMax: time.Duration(r.IntN(2)) * 500 * time.Millisecond,
	}
}

// tick is how often something may change.
const tick = 50 * time.Millisecond

// arrivals adds callers until there are enough.
func (w *World) arrivals() {
	if w.Quiet {
		return
	}
	if len(w.fronts) < w.Profile.callers {
		w.newCaller()
	}
	w.After(w.Within(20*time.Millisecond), w.arrivals)
}

// unrest changes targets, limits or memory, by chance.
func (w *World) unrest() {
	if w.Quiet {
		return
	}
	if w.Odds(w.Profile.unrest) {
		w.change()
	}
	w.After(tick, w.unrest)
}

func (w *World) change() {
	i := w.IntN(len(w.targets))
	some := w.targets[i]
	switch n := w.IntN(8); {
	case n == 0 && len(w.targets) < 4:
		w.addTarget()
		w.proxy.SetTargets(w.Targets())
	case n == 1 && len(w.targets) > 1:
		w.targets = slices.Delete(w.targets, i, i+1)
		w.proxy.SetTargets(w.Targets())
	case n < 4:
		w.swap()
	case w.Profile.calm:
	case n == 4:
		w.proxy.Checked(some.spec, false)
		w.soon(func() { w.proxy.Checked(some.spec, true) })
	case n == 5:
		some.refuses = true
		w.soon(func() { some.refuses = false })
	case n == 6:
		w.proxy.Short(w.Odds(0.3), func() bool { return w.Odds(0.2) })
		w.soon(func() { w.proxy.Short(false, nil) })
	default:
		w.proxy.Drain(true)
		w.soon(func() { w.proxy.Drain(false) })
	}
}

// soon calls do within a second.
func (w *World) soon(do func()) { w.After(w.Within(time.Second), do) }

// up and down return parts of the bodies of a request and of its answer.
func (w *World) up(id uint64, at, n int) []byte   { return w.part(2*id, at, n) }
func (w *World) down(id uint64, at, n int) []byte { return w.part(2*id+1, at, n) }

func (w *World) part(key uint64, at, n int) []byte {
	from := int(key*7919%(patternLen/4)) + at
	return w.pattern[from : from+n]
}
