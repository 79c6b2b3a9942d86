package wire

import (
	"time"

	"weir/proxy/rules/decide"
	"weir/proxy/wire/report"
)

// refused remembers a refusal and returns its id. The id is valid until the next call.
func (s *loopServer) refused(now time.Time, refusal *decide.Refusal) []byte {
	return s.refusals.Record(func(r *report.RefusedRequest) { r.Record(now, refusal) })
}

// Recall returns the [report.RefusalExplanation] refusal or [report.ShedExplanation] shedding whose
// decision id a client was sent.
func (f *Server) Recall(id string) (any, bool) {
	for _, s := range f.loops {
		if r, ok := s.refusals.Find(id); ok {
			return r.Explain(id), true
		}
		if s.sheds == nil {
			continue
		}
		if d, ok := s.sheds.Find(id); ok {
			return d.Explain(id, &f.classes), true
		}
	}
	return nil, false
}

// shed gives up an exchange that no longer waits in a queue, because its target is
// overloaded.
func (c *client) shed(now time.Time) {
	t := c.at.Value
	t.gate.Shed[c.class].Add(1)
	id := c.server.sheds.Record(func(d *report.ShedRequest) {
		*d = report.ShedRequest{At: now, Target: t.spec, Client: c.x.Remote, Class: c.class,
			InFlight: t.gate.InFlight(), Waiting: int(t.gate.Waiting.Load()), Waited: c.waited,
			RequestID: string(c.x.RequestID())}
		d.SetGate(t.gate.State())
	})
	c.notice.gaveUp = t.spec.Addr
	c.leave()
	c.x.HandleShed(now, id)
}
