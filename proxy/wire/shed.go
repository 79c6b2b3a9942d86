package wire

import (
	"net/netip"
	"time"

	"weir/proxy/gate"
	"weir/proxy/gates"
	"weir/proxy/roster"
)

// A shed is a request that was given up as its target was overloaded.
type shed struct {
	at                       time.Time
	target                   *roster.Target
	client                   netip.Addr
	class                    uint8
	limit, inFlight, waiting int // of the loop
	waited, baseline, median time.Duration
	last                     gate.Cut // the zero Cut: there was none
	id                       string   // of the request
}

// Shed is a request given up by a gate as GET /config/decisions/<id> tells it: the
// loop's gate as it was then. Times are seconds.
type Shed struct {
	ID       string     `json:"id"`
	At       time.Time  `json:"at"`
	Reason   string     `json:"reason"` // gate
	URL      string     `json:"target"`
	Address  string     `json:"address"`
	Client   netip.Addr `json:"client"`
	Class    string     `json:"class"` // the request's priority class
	Limit    int        `json:"limit"`
	InFlight int        `json:"inFlight"`
	Waiting  int        `json:"waiting"` // for a place, besides this one
	Waited   float64    `json:"waited"`
	Baseline float64    `json:"baseline"` // median answer time without a queue; 0: not known yet
	Median   float64    `json:"median"`
	Last     *gates.Cut `json:"lastCut,omitempty"`
	// RequestID is empty when requests have none.
	RequestID string `json:"requestId,omitempty"`
}

// explain turns what was noted into what is told.
func (d *shed) explain(id string, classes *gates.Classes) Shed {
	e := Shed{ID: id, At: d.at.UTC(), Reason: "gate", URL: d.target.URL, Address: d.target.Addr, Client: d.client, Class: classes.Name(d.class),
		Limit: d.limit, InFlight: d.inFlight, Waiting: d.waiting,
		Waited: d.waited.Seconds(), Baseline: d.baseline.Seconds(), Median: d.median.Seconds(), RequestID: d.id}
	if !d.last.At.IsZero() {
		last := gates.CutOf(&d.last)
		e.Last = &last
	}
	return e
}

// shed gives the exchange up, which waits in no line any more: its target is overloaded.
func (c *client) shed(now time.Time) {
	t := c.at.Value
	t.view.Shed[c.class].Add(1)
	id := c.side.sheds.note(func(d *shed) {
		look := t.gate.Look()
		*d = shed{at: now, target: t.spec, client: c.conn.Remote().Addr().Unmap(), class: c.class,
			limit: look.Limit, inFlight: t.pool.Short(), waiting: int(t.view.Waiting.Load()),
			waited: c.waited, baseline: look.Baseline, median: look.Median, id: string(c.s.RequestID())}
		if n := len(look.Last); n > 0 {
			d.last = look.Last[n-1]
		}
	})
	c.notice.gaveUp = t.spec.Addr
	c.leave()
	c.s.HandleShed(now, id)
}
