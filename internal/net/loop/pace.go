package loop

import (
	"slices"
	"time"
)

const (
	// dialTick is the time over which dials are counted.
	dialTick = time.Millisecond
	// dialPatience is how long dials wait until twice as many begin per dialTick.
	dialPatience = 250 * dialTick
	// dialMemory is the time over which dials are counted, to find out whether a pace that has risen is still needed.
	// An address to which no dial begins for that time is forgotten.
	dialMemory = time.Second
)

// pacedDials begins the dials of a loop to one address, Config.DialPace per millisecond at first. A peer that has many
// connections to accept at once does nothing else meanwhile, and a connect that its full accept queue drops is repeated
// only after a second. While dials wait, the pace doubles every dialPatience, so that it does not bound a peer that
// needs a connection for each request.
//
// Owned by its loop.
type pacedDials struct {
	loop    *Loop
	addr    string
	waiting []*dial
	most    int       // per tick
	begun   int       // in this tick
	late    int       // ticks in a row after which dials waited, since most was doubled
	last    time.Time // when a dial began
	since   time.Time // when counted was reset
	counted int       // dials begun
	alarm   *Alarm    // rings at the end of the tick, or of dialMemory
}

// paced returns the dials to an address.
func (l *Loop) paced(addr string) *pacedDials {
	p := l.dials[addr]
	if p == nil {
		p = &pacedDials{loop: l, addr: addr, most: l.g.cfg.DialPace, since: l.now}
		p.alarm = l.NewAlarm(p.tick)
		l.dials[addr] = p
	}
	return p
}

// add begins a dial, or has it wait.
func (p *pacedDials) add(job *dial) {
	p.waiting = append(p.waiting, job)
	if p.begun < p.most {
		p.begin(p.loop.now)
	}
}

// begin begins the dials that may begin in this tick.
func (p *pacedDials) begin(now time.Time) {
	n := min(len(p.waiting), p.most-p.begun)
	for _, job := range p.waiting[:n] {
		p.loop.begin(job)
	}
	p.waiting = slices.Delete(p.waiting, 0, n)
	if p.begun == 0 {
		p.alarm.Set(now.Add(dialTick))
	}
	p.begun, p.counted, p.last = p.begun+n, p.counted+n, now
}

// tick begins a tick, or forgets the address.
func (p *pacedDials) tick(now time.Time) {
	p.begun = 0
	if first := p.loop.g.cfg.DialPace; now.Sub(p.since) >= dialMemory {
		if p.counted < first*int(dialMemory/dialTick)/2 {
			p.most = first
		}
		p.counted, p.since = 0, now
	}
	switch {
	case len(p.waiting) > 0:
		if p.late++; p.late == int(dialPatience/dialTick) {
			p.late, p.most = 0, 2*p.most
		}
		p.begin(now)
	case now.Sub(p.last) < dialMemory:
		p.late = 0
		p.alarm.Set(p.last.Add(dialMemory))
	default:
		delete(p.loop.dials, p.addr)
	}
}
