package wire

import (
	"net"
	"time"
)

// probeTimeout bounds the attempt to reach a target that is down.
const probeTimeout = 500 * time.Millisecond

// up reports whether target i is thought to be reachable: a loop has a
// connection to it, or none has failed to get one.
func (f *Front) up(i int) bool {
	failed := false
	for _, s := range f.sides {
		t := s.targets[i]
		if t.open.Load() > 0 {
			return true
		}
		failed = failed || t.down.Load()
	}
	return !failed
}

// TargetsUp returns how each target is. Requests try all of them whatever this
// says; it is for health and readiness.
func (f *Front) TargetsUp() map[string]bool {
	up := make(map[string]bool, len(f.cfg.Targets))
	for i, addr := range f.cfg.Targets {
		up[addr] = f.up(i)
	}
	return up
}

// probe tries the targets that are down: without requests, which readiness may
// keep away, nothing else would notice that they are back.
func (f *Front) probe() {
	anyUp := false
	for i, addr := range f.cfg.Targets {
		if !f.up(i) {
			c, err := net.DialTimeout("tcp", addr, probeTimeout)
			if err != nil {
				continue
			}
			_ = c.Close()
			for _, s := range f.sides {
				s.targets[i].down.Store(false)
			}
		}
		anyUp = true
	}
	if f.cfg.Reachable != nil {
		f.cfg.Reachable(anyUp)
	}
}
