package check

import (
	"bytes"
	"time"

	"weir/internal/net/http1"
	"weir/proxy/ask/envoy"
	"weir/proxy/rules/descriptor"
	"weir/proxy/rules/rls"
)

// jsonBytesMax bounds a request for Envoy's rate limit service.
const jsonBytesMax = 64 << 10

// A RateLimitService has what Envoy's rate limit service needs for decisions.
//
// Safe for concurrent use: Settings is immutable, and the functions are safe.
type RateLimitService struct {
	Settings envoy.Settings
	Counts   *envoy.RequestCounts
	// Domains returns the limits in force, or nil if none were loaded.
	Domains func() *descriptor.Domains
	// Failed counts a request that was not decided, because of the request or, if stores is true,
	// because of the store.
	Failed func(stores bool)
	// Took counts a request and its duration, by the clock of the loop's turns.
	Took func(time.Duration)
	// Apart counts a request with more limits than can be decided together.
	Apart func()
	// Decided is called after each request, with the problem if it was not decided; nil: it is not needed.
	Decided func(c *envoy.Evaluation, problem string)
}

// A limited is a request to Envoy's rate limit service that waits for the store.
//
// Owned by its loop.
type limited struct {
	envoy.Evaluation
	began time.Time
	gave  int // number of Refunds begun
}

// takeLimited returns a limited for a request.
func (e *Env) takeLimited() *limited {
	if n := len(e.limited); n > 0 {
		l := e.limited[n-1]
		e.limited = e.limited[:n-1]
		l.gave = 0
		return l
	}
	return new(limited)
}

// giveLimited returns the session's limited for reuse.
func (e *Env) giveLimited(s *Session) {
	if s.limited.Reset() && len(e.limited) < pendingKept {
		e.limited = append(e.limited, s.limited)
	}
	s.limited = nil
}

// limit decides a request of Envoy's rate limit service.
func (s *Session) limit(now time.Time) {
	e := s.env
	s.limited = e.takeLimited()
	s.limited.began = now
	c := &s.limited.Evaluation
	c.Refused = e.Refused
	r := e.RateLimit
	err := s.readLimited(&c.Request)
	if err == nil {
		err = c.Begin(&r.Settings, r.Counts, r.Domains())
	}
	if err != nil {
		r.Failed(false)
		s.limitEnds(now, err.Error())
		s.faulty(now, err)
		return
	}
	if c.Apart {
		r.Apart()
	}
	s.giveBack(now)
}

// readLimited reads the request in the body.
func (s *Session) readLimited(r *rls.Request) error {
	if s.call.is {
		return r.ReadProto(s.body[messageHead:])
	}
	err := s.env.node.Parse(s.body)
	if err == nil {
		err = r.Read(&s.env.node)
	}
	return err
}

// limitEnds ends a request of Envoy's rate limit service. There is a problem if it was not decided.
func (s *Session) limitEnds(now time.Time, problem string) {
	r := s.env.RateLimit
	r.Took(now.Sub(s.limited.began))
	if r.Decided != nil {
		r.Decided(&s.limited.Evaluation, problem)
	}
	s.env.giveLimited(s)
}

// giveBack gives back hits, one key after another, and then asks the store.
func (s *Session) giveBack(now time.Time) {
	l := s.limited
	if l.gave == len(l.Refunds) {
		if s.askAll(now, l.Asks, l.AddAnswer) {
			s.respond(now)
		}
		return
	}
	g := &l.Refunds[l.gave]
	l.gave++
	if !s.startEdit(now, &Edit{Rule: g.Rule, Key: bytes.Clone(g.Key), Add: g.N, PerSecond: g.PerSecond}) {
		s.undecided(now, 503, "too many edits are waiting")
	}
}

// respond answers a request that was decided.
func (s *Session) respond(now time.Time) {
	e, l := s.env, s.limited
	if l.Closed {
		s.undecided(now, 500, "the rate limiter's store is unavailable")
		return
	}
	l.Respond(now)
	if s.call.is {
		e.body = rls.AppendProto(beginMessage(e.body), &l.Response)
		s.limitEnds(now, "")
		s.reply(now)
		return
	}
	e.body = rls.AppendResponse(e.body[:0], &l.Response)
	status := 200
	if l.Response.OverallCode == rls.OverLimit {
		status = 429
	}
	s.limitEnds(now, "")
	s.write(now, http1.LocalResponse{Status: status, ContentType: "application/json", Body: e.body})
}

// undecided answers a request of Envoy's rate limit service that the store did not decide.
func (s *Session) undecided(now time.Time, status int, problem string) {
	s.env.RateLimit.Failed(true)
	s.limitEnds(now, problem)
	s.fail(now, status, problem)
}
