package upstream

import (
	"cmp"
	"math/rand/v2"
	"time"
)

// An Ejection says when a target is left alone because of how requests fare
// there, and for how long. Zero values mean the defaults.
//
// Kinds of failure weigh differently. A connect that fails costs nobody an
// answer and is beyond doubt, so one is enough. 502, 503, 504 (what the proxy
// answers itself when the target breaks off or is too slow counts as such) say
// that the target is unwell: five in a row, Envoy's figure for both of its
// streaks. Any other 5xx may be one client's bad request and nothing else, at
// any share of the traffic: it takes a streak that has also lasted for a span
// without one good answer, which other clients' requests would have had.
type Ejection struct {
	ConnectErrors   int           // failed connects in a row; 1
	GatewayErrors   int           // answers 502, 503, 504 without one below 500 between; 5
	ServerErrors    int           // answers 5xx of any kind likewise; 5 …
	ServerErrorSpan time.Duration // … over at least so long; 5 s

	BackoffMin time.Duration // first ejection; 1 s. Each further one is twice as long
	BackoffMax time.Duration // bound of that; 30 s. Up to a quarter of chance is added
	Quiet      time.Duration // up for so long: the next ejection is a first one; 30 s
	ProbeMax   time.Duration // a probe of which nothing was heard for so long counts no more; 10 s
}

// orDefaults fills in what is not set.
func (e Ejection) orDefaults() Ejection {
	return Ejection{
		ConnectErrors:   cmp.Or(e.ConnectErrors, 1),
		GatewayErrors:   cmp.Or(e.GatewayErrors, 5),
		ServerErrors:    cmp.Or(e.ServerErrors, 5),
		ServerErrorSpan: cmp.Or(e.ServerErrorSpan, 5*time.Second),
		BackoffMin:      cmp.Or(e.BackoffMin, time.Second),
		BackoffMax:      cmp.Or(e.BackoffMax, 30*time.Second),
		Quiet:           cmp.Or(e.Quiet, 30*time.Second),
		ProbeMax:        cmp.Or(e.ProbeMax, 10*time.Second),
	}
}

// backoff is min × 2^level, at most max, and up to a quarter more by chance, so
// that loops and proxies do not all come back at once.
func (e *Ejection) backoff(level int, chance *rand.Rand) time.Duration {
	d := min(e.BackoffMin, e.BackoffMax)
	for range level {
		if d = min(2*d, e.BackoffMax); d == e.BackoffMax {
			break
		}
	}
	return d + time.Duration(chance.Int64N(int64(d/4)+1))
}

// A Status is how a target is, as one loop sees it.
type Status uint8

const (
	Up       Status = iota // takes its share of the requests
	Ejected                // left alone for a while because requests failed there
	Probing                // ejected for long enough: one request at a time finds out
	Down                   // active checks say so: no request goes there
	Draining               // no target any more: what is under way ends
)

// String is the status in words.
func (s Status) String() string {
	return [...]string{"up", "ejected", "probing", "down", "draining"}[s]
}

// A Mark is a point in a target's life. What began before the target was
// ejected, probed or found well again has nothing to say about it afterwards:
// a hundred connects that were under way when it died are one death.
type Mark uint32

// Health is one target's state as one loop sees it. It is told what happened
// there. Times come only from the arguments: it has to be told nothing for an
// ejection to end.
//
//	up ──failures──▶ ejected ──back-off──▶ probing ──success──▶ up
//	                    ▲                     │
//	                    └───────failure───────┘
//
// Who is ejected is still used when there is nobody else (Group), and is up
// again with the first success.
//
// Owned by its loop.
type Health struct {
	settings *Ejection
	chance   *rand.Rand
	mark     Mark

	connectErrors int       // in a row
	gatewayErrors int       // in a row
	serverErrors  int       // in a row
	firstError    time.Time // of serverErrors

	out       bool      // ejected or probing
	connects  bool      // because of connects, not of answers
	until     time.Time // ejected; then probing
	probe     time.Time // the probe under way counts until then; zero: none
	level     int       // ejections one after the other
	back      time.Time // when last up again
	ejections uint64

	verdict Verdict
	recheck time.Time // when the verdict may be another, at the earliest
	retired bool
}

// Mark is to be taken right after Choose, for the request, and when a connect
// is begun, for it. It is given back with the outcome.
func (h *Health) Mark() Mark { return h.mark }

// Ejections is how often the target has been ejected.
func (h *Health) Ejections() uint64 { return h.ejections }

// Status is how the target is.
func (h *Health) Status(now time.Time) Status {
	switch {
	case h.retired:
		return Draining
	case h.verdict == CheckedDown:
		return Down
	case !h.out:
		return Up
	case now.Before(h.until):
		return Ejected
	}
	return Probing
}

// usable: nothing but passive ejection speaks against a request.
func (h *Health) usable() bool { return h.verdict != CheckedDown }

// ready: the next request may go there, up or as a probe.
func (h *Health) ready(now time.Time) bool {
	return h.usable() && (!h.out || !now.Before(h.until) && !now.Before(h.probe))
}

// chosen is told that a request goes there.
func (h *Health) chosen(now time.Time) {
	if h.out && h.ready(now) {
		h.probe = now.Add(h.settings.ProbeMax)
		h.mark++
	}
}

// Connected is told of a new connection. It is up again who was ejected
// because there was none.
func (h *Health) Connected(now time.Time) {
	h.connectErrors = 0
	if h.out && h.connects {
		h.restore(now)
	}
}

// ConnectFailed is told of a connect, begun at mark, that came to nothing by
// the target's fault: not for want of our own descriptors.
func (h *Health) ConnectFailed(now time.Time, mark Mark) {
	if mark != h.mark {
		return
	}
	h.connectErrors++
	if h.out || h.connectErrors >= h.settings.ConnectErrors {
		h.eject(now, true)
	}
}

// Answered is told the status of the final answer to a request that was chosen
// at mark: the target's, or the proxy's own 502 or 504 when the target closed
// early, sent garbage or was too slow (but not when a kept-alive connection was
// found closed, which is nobody's fault, and not when connecting failed).
func (h *Health) Answered(now time.Time, mark Mark, status int) {
	if mark != h.mark {
		return
	}
	if status < 500 {
		h.gatewayErrors, h.serverErrors = 0, 0
		if h.out {
			h.restore(now)
		}
		return
	}
	gateway := status >= 502 && status <= 504
	if h.out {
		// A 500 leaves it open whether the target or the request is to blame.
		h.probe = time.Time{}
		if gateway {
			h.eject(now, false)
		}
		return
	}
	if gateway {
		h.gatewayErrors++
	}
	if h.serverErrors == 0 {
		h.firstError = now
	}
	h.serverErrors++
	long := h.serverErrors >= h.settings.ServerErrors && now.Sub(h.firstError) >= h.settings.ServerErrorSpan
	if long || h.gatewayErrors >= h.settings.GatewayErrors {
		h.eject(now, false)
	}
}

// Abandoned is told that a request, chosen at mark, ended and says nothing about
// the target: the client went away, or the proxy had no place for it. Every
// request that was chosen comes to Answered or Abandoned; both do no harm.
func (h *Health) Abandoned(mark Mark) {
	if mark == h.mark {
		h.probe = time.Time{}
	}
}

// Checked is told what active checks say, and when they may say something else
// at the earliest. Who was down and is up begins anew.
func (h *Health) Checked(now time.Time, v Verdict, recheck time.Time) {
	if h.verdict == CheckedDown && v == CheckedUp {
		h.restore(now)
	}
	h.verdict, h.recheck = v, recheck
}

// eject takes the target out, or leaves it out for longer after a probe that
// failed. Failures of requests that had nowhere else to go do not prolong it.
func (h *Health) eject(now time.Time, connects bool) {
	if h.out && now.Before(h.until) {
		return
	}
	if !h.out && now.Sub(h.back) >= h.settings.Quiet {
		h.level = 0
	}
	h.until = now.Add(h.settings.backoff(h.level, h.chance))
	h.level++
	h.out, h.connects = true, connects
	h.ejections++
	h.begin()
}

// restore has the target up again.
func (h *Health) restore(now time.Time) {
	h.out, h.back = false, now
	h.begin()
}

// begin starts a new part of the target's life.
func (h *Health) begin() {
	h.mark++
	h.probe = time.Time{}
	h.connectErrors, h.gatewayErrors, h.serverErrors = 0, 0, 0
}
