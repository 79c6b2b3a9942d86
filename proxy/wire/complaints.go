package wire

import (
	"cmp"
	"time"

	"weir/internal/timing/every"
	"weir/proxy/targets/roster"
)

// complainEvery is the least time between two log lines about the same.
const complainEvery = time.Minute

// complaints log what others do wrong: targets whose answers are not valid, and proxies in front of
// this one that form a loop with it.
//
// Owned by the goroutine of housekeeping.
type complaints struct {
	answers  map[*roster.Target]*every.LogThrottle
	declined map[*roster.Target]bool
	loops    every.LogThrottle
	http2    complaintsHTTP2
}

// noteGarbled keeps what was wrong with an answer for look.
func (t *target) noteGarbled(why error) {
	if t.garbled.Load() == nil {
		t.garbled.Store(&why)
	}
}

// look logs what has happened since the last call.
func (c *complaints) look(now time.Time, f *Server) {
	known, declined := make(map[*roster.Target]*every.LogThrottle), make(map[*roster.Target]bool)
	for _, s := range f.loops {
		for spec, t := range *s.seen.Load() {
			if known[spec] == nil {
				known[spec] = cmp.Or(c.answers[spec], new(every.LogThrottle))
			}
			declined[spec] = declined[spec] || t.declined.Load()
			why := t.garbled.Swap(nil)
			if why == nil {
				continue
			}
			if _, ok := known[spec].Allow(now, complainEvery); ok {
				f.cfg.Log.Warn("The answer of a target is not valid HTTP, answered 502", "target", spec.URL, "address",
					spec.Addr, "reason", *why)
			}
		}
	}
	for spec, is := range declined {
		if is && !c.declined[spec] {
			f.cfg.Log.Warn("Target does not speak h2, using HTTP/1.1", "target", spec.URL, "address", spec.Addr)
		}
	}
	c.answers, c.declined = known, declined
	c.http2.look(now, f.loops, f.cfg.Log)
	if f.looped.Load() == 0 {
		return
	}
	if _, ok := c.loops.Allow(now, complainEvery); ok {
		f.cfg.Log.Warn("Requests had passed this proxy before, answered 508: a target forwards to this proxy, or another "+
			"proxy in the chain has the same VIA_NAME",
			"name", f.cfg.Session.Pseudonym, "count", f.looped.Swap(0))
	}
}
