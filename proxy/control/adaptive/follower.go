// Package adaptive lets the limit follow the advisor. At every interval, and every 2 s
// while gates hold requests back, it sends the advisor what the proxy has observed, and
// applies the recommendation within the bounds of package rails. The limit configuration
// stays in the store (see admin.Limits), so the other proxies follow it and manual
// changes win. When the advisor is unavailable, slow or sends an invalid response, the
// last limit stays in force.
//
// Of the proxies that share a store, one applies recommendations: the holder of a lease of
// the store. The [Result] of an update is Following at the others, Pinned if an operator
// has pinned the limit, so that only people change it, and Unavailable while there is no
// store or no holder. A recommendation may also have [GateLimitBounds]: an upper bound of
// the gates' limits.
//
// With ADAPTIVE_MODE=shadow nothing is applied. What would be applied is reported, and requests
// are evaluated against it as against a rule in shadow. The bounds are relative to the limit in
// force, which does not change: the candidate is never more than one step away from it, whatever
// the advisor recommends. With ADAPTIVE_MODE=true each update starts from the one before.
package adaptive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"weir/internal/data/number"
	"weir/internal/data/strict"
	"weir/internal/program/metric"
	"weir/proxy/config"
	"weir/proxy/control/admin"
	"weir/proxy/limit"
	"weir/proxy/limit/rails"
	"weir/proxy/rules/tally"
	"weir/proxy/store"
	"weir/proxy/targets/gate"
	"weir/proxy/wire/report"
)

// A Config configures a Follower.
type Config struct {
	Settings config.Adaptive
	Instance string // identifies this proxy to the advisor and in the lease; unique
	Limits   *admin.Limits
	Store    store.Store
	Shared   bool // other proxies share the store
	Log      *slog.Logger

	// Traffic is a method of wire.Server; SetCandidate and Candidate are methods of
	// tally.Tally.
	Traffic      func() *report.TrafficTotals
	SetCandidate func(*limit.Limit)
	Candidate    func() tally.CandidateCounts

	// Bound is a method of gates.Gates.
	Bound func(most int)
}

// A Follower follows the advisor while it runs.
//
// Safe for concurrent use: Run owns what is not guarded; mu guards what others may read.
type Follower struct {
	cfg    Config
	client *client
	clock  clock
	lease  lease

	last      *reading        // counters at the last snapshot
	beat      *reading        // counters at the last turn of the clock
	every     int64           // turns between two snapshots, unless gates are full
	failing   store.Mode      // the failure mode in effect at some time since the last snapshot; store.Exact: none was
	algorithm limit.Algorithm // in force when it was last read
	switched  time.Time       // when algorithm was put in force, by the snapshots' clock
	warnedCap float64         // cap of the previous recommendation; 0: it was not capped
	candidate limit.Config    // on trial
	bounded   int             // bound of the gates' limits in force; 0: none
	before    *trial          // counts of the candidate at the last update

	results [resultCount]metric.Counter
	mu      sync.Mutex
	public  public
}

// New returns a Follower that is not running yet.
func New(cfg Config) *Follower {
	s := &cfg.Settings
	return &Follower{cfg: cfg, client: newClient(s.URL, s.Token, s.Timeout),
		lease: lease{store: cfg.Store, shared: cfg.Shared, owner: cfg.Instance}}
}

func (f *Follower) off() bool    { return f.cfg.Settings.Mode == "false" }
func (f *Follower) shadow() bool { return f.cfg.Settings.Mode == "shadow" }

// Run follows the advisor until ctx ends, and then releases the lease. With
// ADAPTIVE_MODE=false it returns at once. It must be called once.
func (f *Follower) Run(ctx context.Context) {
	if f.off() {
		return
	}
	f.begin(time.Now())
	turn := time.NewTimer(time.Until(f.clock.due(1)))
	defer turn.Stop()
	renew := time.NewTicker(leasePause)
	defer renew.Stop()
	answers := make(chan *update, 1)
	asking := false
	for {
		select {
		case <-ctx.Done():
			if asking {
				<-answers // cancelled by ctx; its answer is not used
			}
			f.lease.release(time.Now())
			f.show(func(p *public) { p.leader = false })
			return
		case <-renew.C:
			f.renew(time.Now())
		case <-turn.C:
			now := time.Now()
			turn.Reset(time.Until(f.clock.due(f.clock.turn(now) + 1)))
			if !f.due(now) || asking { // the advisor is slow: the next snapshot covers both intervals
				continue
			}
			u := f.open(now)
			asking = true
			go func() {
				u.recommendation, u.err = f.client.ask(ctx, u.snapshot)
				answers <- u
			}()
		case u := <-answers:
			asking = false
			if ctx.Err() == nil { // otherwise it was cancelled
				f.conclude(time.Now(), u)
			}
		}
	}
}

// begin starts the clock.
func (f *Follower) begin(now time.Time) {
	interval := f.cfg.Settings.Interval
	f.every = max(1, int64(interval/gate.ReportIntervalWhenFull))
	f.clock = clock{began: now, interval: interval / time.Duration(f.every), scale: f.cfg.Settings.Scale}
	f.last = &reading{at: now, traffic: f.cfg.Traffic()}
	f.beat = f.last
	in := f.cfg.Limits.Active()
	if f.algorithm = in.Config.Algorithm; in.Source != admin.SourceDefault {
		f.switched = f.clock.then(now, in.UpdatedAt) // no later than that
	}
	f.show(func(p *public) { p.next = f.clock.due(f.every) })
	f.renew(now)
}

// due is called at a turn of the clock, and reports whether a snapshot must be sent. The first
// is sent at the first turn, after about 2 s, for the bound of the gates: they have learned little yet.
func (f *Follower) due(now time.Time) bool {
	before := f.beat
	f.beat = &reading{at: now, turn: f.clock.turn(now), traffic: f.cfg.Traffic()}
	t := f.beat.traffic.Since(before.traffic)
	if !f.young(now) {
		f.bound(0)
	}
	return f.regular() || f.last.turn == 0 || full(&t) >= gate.FullGatesShare
}

// young reports whether the gates have learned little yet.
func (f *Follower) young(now time.Time) bool { return now.Sub(f.clock.began) < gate.WarmUp }

// bound bounds the gates' limits, if that is a change; 0: no longer.
func (f *Follower) bound(most int) {
	if most != f.bounded {
		f.bounded = most
		f.cfg.Bound(most)
	}
}

// regular reports whether an interval of the settings has ended since the last snapshot.
func (f *Follower) regular() bool { return f.beat.turn/f.every > f.last.turn/f.every }

// enforced reports whether the limit decided since the last snapshot, and whether the
// store is shared.
func (f *Follower) enforced() (mode, shared string) {
	mode, shared = "normal", "shared"
	switch {
	case f.failing == store.FailOpen, f.failing == store.Closed:
		mode = "failopen"
	case f.shadow():
		mode = "shadow"
	}
	if !f.cfg.Shared || f.failing == store.Local {
		shared = "local"
	}
	f.failing = store.Exact
	return mode, shared
}

// renew renews the lease, if recommendations are applied.
func (f *Follower) renew(now time.Time) {
	if mode := f.cfg.Store.Mode(); mode != store.Exact {
		f.failing = mode
	}
	if f.shadow() {
		return
	}
	f.lease.renew(now)
	leader := f.lease.held(now)
	var before bool
	f.show(func(p *public) { before, p.leader = p.leader, leader })
	if leader != before && f.cfg.Shared {
		f.cfg.Log.Info(map[bool]string{true: "This proxy applies AI updates",
			false: "This proxy no longer applies AI updates"}[leader])
	}
}

// An update is one snapshot with its answer and result.
//
// Owned by the goroutine of the Follower, and while the request is in progress by that of the
// request.
type update struct {
	snapshot       *Snapshot
	inForce        *admin.ActiveLimit // when the snapshot was taken
	recommendation *Recommendation
	err            error // why there is no recommendation
}

// open takes the snapshot that is due.
func (f *Follower) open(now time.Time) *update {
	r, level := f.beat, slog.LevelDebug
	if f.regular() {
		level = slog.LevelInfo
	}
	in := f.cfg.Limits.Active()
	u := &update{inForce: in, snapshot: f.clock.snapshot(f.last, r, in, f.cfg.Instance)}
	u.snapshot.Mode, u.snapshot.Store = f.enforced()
	f.last = r
	if in.Config.Algorithm != f.algorithm { // another writer has changed it
		f.algorithm, f.switched = in.Config.Algorithm, f.clock.then(now, in.UpdatedAt)
	}
	f.show(func(p *public) { p.next = f.clock.due((r.turn/f.every + 1) * f.every) })
	f.cfg.Log.Log(context.Background(), level,
		fmt.Sprintf("AI request sent (interval %s s)", number.Decimal(u.snapshot.Interval)))
	return u
}

// conclude handles an answer, and records the result.
func (f *Follower) conclude(now time.Time, u *update) {
	line := UpdateRecord{At: now.UTC(), Snapshot: u.snapshot, Recommendation: u.recommendation, Candidate: f.tried()}
	var v rails.Result
	err := u.err
	if err == nil {
		v, err = f.cfg.Settings.Judge(u.snapshot.Timestamp, rails.LimitInForce{Config: u.inForce.Policy.Limit.Config(),
			Switched: f.switched}, u.recommendation.Config)
	}
	_, invalid := errors.AsType[strict.Faults](err)
	switch {
	case u.err != nil || invalid:
		line.Result, line.Reason = Failed, clean(err.Error())
		f.failed(line.Reason)
	case err != nil:
		f.succeeded(now, u.recommendation)
		line.Result, line.Reason = Refused, err.Error()
	default:
		f.succeeded(now, u.recommendation)
		f.follow(now, u, &v, &line)
	}
	f.results[line.Result].Inc()
	f.show(func(p *public) { p.note(line) })
}

// follow handles a recommendation that the guard allows.
func (f *Follower) follow(now time.Time, u *update, v *rails.Result, line *UpdateRecord) {
	in := f.cfg.Limits.Active()
	s := situation{shadow: f.shadow(), leader: f.lease.held(now), taken: f.lease.taken, pinned: in.Pinned,
		mode: f.cfg.Store.Mode()}
	line.Result, line.Reason = decide(s, v)
	line.Crossed = v.Crossed
	switch line.Result {
	case Shadowed:
		line.Config = &v.Config
		f.warnCap(v)
		f.try(v, u.recommendation.Reason)
	case Unchanged:
		f.warnCap(v)
	case Applied:
		line.Config = &v.Config
		f.warnCap(v)
		f.apply(now, u, v, line)
	}
	if text := v.String(); text != "" {
		line.Reason = strings.TrimSuffix(text+"; "+line.Reason, "; ")
	}
}

// apply puts a recommendation in force, if the configuration under which the snapshot was
// taken still is.
func (f *Follower) apply(now time.Time, u *update, v *rails.Result, line *UpdateRecord) {
	next, err := f.cfg.Limits.Apply(now, admin.LimitChange{Config: v.Config, Source: admin.SourceAdvisor,
		IfMatch: u.inForce.Version, Basis: u.inForce, StoredOnly: true})
	switch {
	case errors.Is(err, admin.ErrConflict):
		line.Result = Conflict
	case errors.Is(err, admin.ErrPinned):
		line.Result = Pinned
	case errors.Is(err, admin.ErrUnavailable):
		line.Result = Unavailable
	case err != nil:
		line.Result = Refused
	default:
		line.Version = next.Version
		if v.Config.Algorithm != f.algorithm {
			f.algorithm, f.switched = v.Config.Algorithm, u.snapshot.Timestamp
		}
		f.cfg.Log.Info("AI update applied: " + describe(v, u.recommendation.Reason))
		return
	}
	line.Config, line.Reason = nil, err.Error()
}

// try puts a candidate on trial beside the limit in force.
func (f *Follower) try(v *rails.Result, reason string) {
	if v.Config == f.candidate {
		return
	}
	l, err := limit.New(v.Config)
	if err != nil {
		return // cannot happen: the guard has made it
	}
	f.candidate = v.Config
	f.cfg.SetCandidate(&l)
	f.cfg.Log.Info("AI update not applied (shadow): " + describe(v, reason))
}

// warnCap warns once about a recommendation out of range, and again when the cap differs
// or there was none in between.
func (f *Follower) warnCap(v *rails.Result) {
	if v.Cap != f.warnedCap && v.Cap != 0 {
		unit := "/s"
		if !v.Has(rails.Bounds) {
			unit = " at once"
		}
		f.cfg.Log.Warn("AI provided out-of-range value, using cap "+number.Decimal(v.Cap)+unit, "recommended",
			rails.FormatRate(v.Recommended)+"/s")
	}
	f.warnedCap = v.Cap
}

// failed records that there is no usable recommendation.
func (f *Follower) failed(reason string) {
	var failures int
	f.show(func(p *public) {
		p.failures++
		failures = p.failures
		p.stale = failures >= f.cfg.Settings.Stale
	})
	if failures == 1 {
		f.cfg.Log.Warn("AI module unreachable, continuing with last known limits", "reason", reason)
	}
	if failures == f.cfg.Settings.Stale {
		f.bound(0)
		f.cfg.Log.Warn("AI recommendations are stale", "failed", failures, "reason", reason)
	}
}

// succeeded records a usable recommendation.
func (f *Follower) succeeded(now time.Time, r *Recommendation) {
	var failures int
	f.show(func(p *public) {
		failures = p.failures
		p.failures, p.stale, p.success = 0, false, now
		if r.PredictedRPS > 0 {
			p.predicted = r.PredictedRPS
		}
	})
	if r.Gate != nil && !f.shadow() && f.young(now) {
		f.bound(r.Gate.Max)
	}
	if failures > 0 {
		f.cfg.Log.Info("AI module reachable again", "failed", failures)
	}
}
