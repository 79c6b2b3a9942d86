package port

import (
	"math"
	"strings"
	"time"

	"weir/internal/net/http2"
	"weir/internal/net/loop"
	"weir/proxy/ask/check"
	"weir/proxy/ask/envoy"
	"weir/proxy/rules/decide"
	"weir/proxy/rules/descriptor"
	"weir/proxy/store"
	"weir/proxy/store/lane"
	"weir/proxy/wire/report"
)

// A side is the state of the port on one loop.
//
// Owned by its loop.
type side struct {
	port     *Server
	loop     *loop.Loop
	env      check.Env
	lane     store.Lane
	refusals *report.RecentDecisions[report.RefusedRequest]
	draining bool
	accepted uint64 // connections of HTTP/2, for endOf

	perSecond store.Lane // nil: of no store of its own
}

func newSide(p *Server, l *loop.Loop) *side {
	r := &side{port: p, loop: l, lane: lane.ForLoop(p.cfg.Store, l),
		refusals: report.NewRecentDecisions[report.RefusedRequest](0)}
	if p.cfg.PerSecond != nil {
		r.perSecond = lane.ForLoop(p.cfg.PerSecond, l)
	}
	r.env = check.Env{
		RateLimit: &check.RateLimitService{Settings: p.cfg.RateLimit, Counts: &p.series.RequestCounts,
			Domains: p.cfg.Limits.Domains,
			Failed:  p.series.failed, Took: p.series.took, Apart: p.series.apart.Inc,
			Decided: debugLog(p.cfg.Log)},
		Access: &p.cfg.Access, Head: &p.cfg.Head, Mode: p.cfg.Store.Mode, Documents: p.documents.current.Load,
		Ask: r.ask, Refund: r.refund, Edit: r.edit, EditTimeout: p.cfg.EditTimeout,
		Refused: r.refused, Count: p.counts.count, Cut: p.counts.cut.Inc,
		HTTP2: p.cfg.HTTP2, EndOf: r.endOf, AgeGrace: p.cfg.AgeGrace,
		Healthy: p.healthy, Policy: p.cfg.Policy, Trusted: p.cfg.Trusts, PreflightsApart: p.cfg.PreflightsApart,
		Answers:          decide.Responder{Style: &p.cfg.Style, Pages: p.cfg.Pages},
		AdmitUndescribed: p.cfg.AdmitUndescribed, Undescribed: r.undescribed,
		HoldMax: p.cfg.HoldMax, DrainGrace: p.cfg.DrainGrace,
		Answered: func(now time.Time, s *check.Session) { s.Owner.(owner).answered(now, s) },
	}
	return r
}

// laneOf returns the lane to the store that has a counter.
func (r *side) laneOf(c *store.Counter) store.Lane {
	if r.perSecond != nil && strings.HasPrefix(c.Rule, descriptor.RulePrefix) && envoy.PerSecond(c.Limit) {
		return r.perSecond
	}
	return r.lane
}

// ask asks the store that has the counter, or Store about several, which no other can decide together.
func (r *side) ask(now time.Time, ask *store.Ask, ans *store.Answer, done store.Done) bool {
	if len(ask.Counters) > 1 {
		return r.lane.Ask(now, ask, ans, done)
	}
	return r.laneOf(&ask.Counters[0]).Ask(now, ask, ans, done)
}

func (r *side) refund(now time.Time, c *store.Counter, instant int64, mode store.Mode) {
	r.laneOf(c).Refund(now, c, instant, mode)
}

// refused remembers a refusal and returns its id, valid until the next call.
func (r *side) refused(now time.Time, refusal *decide.Refusal) []byte {
	return r.refusals.Record(func(place *report.RefusedRequest) { place.Record(now, refusal) })
}

// undescribed notes a request that cannot be described.
func (r *side) undescribed(now time.Time, reason string) { r.port.odd.note(now, &r.port.cfg, reason) }

// edit starts an edit of a key.
func (r *side) edit(_ time.Time, s *check.Session, e *check.Edit) bool {
	waits := edit{r, s, e}
	return r.port.edits.Enter(waits.client(), func() edit { return waits })
}

// ageSpread is the part of the configured maximum age by which those of connections differ from it at most, so that
// askers do not connect anew all at once.
const ageSpread = 0.1

// endOf returns when a connection of HTTP/2 reaches its maximum age. Those of successive connections are spread evenly,
// like the fractional parts of the multiples of an irrational number (Weyl, 1916).
func (r *side) endOf(now time.Time) time.Time {
	age := r.port.cfg.Age
	if age <= 0 {
		return time.Time{}
	}
	r.accepted++
	_, part := math.Modf(float64(r.accepted) * math.Phi)
	return now.Add(age + time.Duration((2*part-1)*ageSpread*float64(age)))
}

func (r *side) accept(now time.Time, lc *loop.Conn, access *AccessPolicy) loop.Handler {
	if lc.Protocol() == "h2" {
		return r.acceptHTTP2(now, lc, access)
	}
	c := &conn{side: r, net: lc, session: check.New(now, &r.env, lc.Remote().Addr(), lc.Verified()),
		sniffs: !lc.Secure()}
	c.session.Owner, c.session.Access = c, access
	if r.draining {
		c.session.HandleDrain(now)
	}
	c.flush()
	return c
}

func (r *side) drain(now time.Time) {
	r.draining = true
	r.loop.Each(func(_ *loop.Conn, h loop.Handler) {
		h.(owner).drain(now)
	})
}

// An owner is what owns the sessions of a connection.
type owner interface {
	answered(now time.Time, s *check.Session)
	drain(now time.Time)
}

// A conn applies the effects of one session. It implements loop.Handler.
//
// Owned by its loop.
type conn struct {
	side    *side
	net     *loop.Conn
	session *check.Session
	sniffs  bool // it may turn out to be one of HTTP/2, by prior knowledge (RFC 9113 section 3.3)
}

// Data implements loop.Handler.
func (c *conn) Data(now time.Time, b []byte) int {
	if c.sniffs {
		switch begins, whole := http2.Preface(b); {
		case whole:
			h := c.side.acceptHTTP2(now, c.net, c.session.Access)
			c.net.SetHandler(h)
			return h.Data(now, b)
		case begins: // "P" may also begin a request: its head must be complete in time
			b = b[:1]
		default:
			c.sniffs = false
		}
	}
	n := c.session.HandleData(now, b)
	c.flush()
	if c.session.Full() {
		c.net.Pump()
	}
	return n
}

// Expired implements loop.Handler.
func (c *conn) Expired(now time.Time) {
	c.session.HandleExpired(now)
	c.flush()
}

// Closed implements loop.Handler.
func (c *conn) Closed(now time.Time, _ error) { c.session.HandleClosed(now) }

// answered applies the effects of an answer that came later, and continues reading.
func (c *conn) answered(time.Time, *check.Session) {
	c.flush()
	if c.session.Unread() {
		c.net.Pump()
	}
}

func (c *conn) drain(now time.Time) {
	c.session.HandleDrain(now)
	c.flush()
}

// flush applies the effects.
func (c *conn) flush() {
	e := &c.side.env
	if len(e.Out) > 0 {
		c.net.Write(e.Out)
	}
	e.Close.Apply(c.net, c.session.Deadline())
	e.Reset()
}
