package wire

import (
	"iter"
	"slices"
	"time"

	"weir/proxy/rules/tally"
	"weir/proxy/targets/gates"
	"weir/proxy/targets/roster"
	"weir/proxy/targets/upstream"
)

// targetsWait bounds how long an own endpoint waits for the loops.
const targetsWait = 2 * time.Second

// gather calls of on every loop and waits for that, at most targetsWait. It returns the
// results so far.
func gather[T any](ls loops, of func(s *loopServer, now time.Time) T) (all []T) {
	results := make(chan T, len(ls))
	for _, s := range ls {
		s.loop.Post(func(now time.Time) { results <- of(s, now) })
	}
	over := time.After(targetsWait)
	for range ls {
		select {
		case r := <-results:
			all = append(all, r)
		case <-over:
			return all
		}
	}
	return all
}

// each calls do on every loop and waits for that, at most targetsWait.
func (ls loops) each(do func(s *loopServer, now time.Time)) {
	gather(ls, func(s *loopServer, now time.Time) struct{} {
		do(s, now)
		return struct{}{}
	})
}

// Top returns the keys of a rule that were seen most and refused most lately, over all
// loops.
func (f *Server) Top(id string) (busiest, refused tally.Ranking) {
	var busy, no []tally.Ranking
	for _, v := range gather(f.loops, func(s *loopServer, now time.Time) [2]tally.Ranking {
		busiest, refused := s.tally.Keys(now, id)
		return [2]tally.Ranking{busiest, refused}
	}) {
		busy, no = append(busy, v[0]), append(no, v[1])
	}
	return tally.Merge(busy...), tally.Merge(no...)
}

// setTargets replaces the loop's targets by list.
func (s *loopServer) setTargets(now time.Time, list []*roster.Target, gates map[*roster.Target]*gates.Gate) {
	there := make(map[*roster.Target]bool, len(list))
	for _, at := range slices.Clone(s.targets.Targets()) {
		spec := at.Value.spec
		if there[spec] = gates[spec] != nil; !there[spec] {
			at.Value.retire(now)
		}
	}
	for _, spec := range list {
		if !there[spec] {
			there[spec] = true
			s.addTarget(now, spec, gates[spec])
		}
	}
	s.publish()
}

func (s *loopServer) addTarget(now time.Time, spec *roster.Target, g *gates.Gate) {
	// connections that may carry tunnels and streams
	streams := max(1, int(float64(s.connsPerTarget)*s.shared.cfg.StreamShare))
	t := &target{server: s, spec: spec, gate: g, pool: upstream.NewPool[*upstreamConn, occupant](s.connsPerTarget,
		streams, s.waitersMax)}
	if spec.Secure != nil {
		s.shared.group.ReserveTLSOut()
	}
	t.dials.streams = max(1, s.shared.cfg.TargetHTTP2.StreamsMax)
	t.at = s.targets.Add(t)
	t.serve = t.serveQueue
	t.note(now)
	t.serveNext(now)
}

// publish makes the loop's targets visible to other goroutines.
func (s *loopServer) publish() {
	seen := make(map[*roster.Target]*target, len(s.targets.Targets()))
	for _, at := range s.targets.Targets() {
		seen[at.Value.spec] = at.Value
	}
	s.seen.Store(&seen)
}

// loops are the proxy's state by loop, for the roster.
type loops []*loopServer

// SetTargets replaces the targets of all loops by list. It returns when every loop has it.
func (ls loops) SetTargets(list []*roster.Target) {
	of := make(map[*roster.Target]*gates.Gate, len(list))
	for _, spec := range list {
		if of[spec] = ls.gate(spec); of[spec] == nil {
			of[spec] = new(gates.Gate)
		}
	}
	ls.each(func(s *loopServer, now time.Time) { s.setTargets(now, list, of) })
}

// Refresh makes the loops publish the state of their targets.
func (ls loops) Refresh() {
	ls.each(func(s *loopServer, now time.Time) {
		for _, at := range s.targets.Targets() {
			at.Value.note(now)
		}
	})
}

// Views yields what the loops publish about one target.
func (ls loops) Views(spec *roster.Target) iter.Seq[*roster.LoopView] {
	return func(yield func(*roster.LoopView) bool) {
		for t := range ls.of(spec) {
			if !yield(&t.LoopView) {
				return
			}
		}
	}
}

// gate returns the gate of one target, or nil if there is none.
func (ls loops) gate(spec *roster.Target) *gates.Gate {
	for t := range ls.of(spec) {
		return t.gate
	}
	return nil
}

// Connected reports to the loops that a target can be reached.
func (ls loops) Connected(spec *roster.Target) {
	for t := range ls.of(spec) {
		t.Failed.Store(false)
		t.server.loop.Post(func(now time.Time) {
			t.at.Connected(now)
			t.serveNext(now)
		})
	}
}

// Checked reports the verdict of a health check to the loops.
func (ls loops) Checked(spec *roster.Target, v upstream.CheckResult, recheck time.Duration) {
	for t := range ls.of(spec) {
		t.server.loop.Post(func(now time.Time) {
			t.at.Checked(now, v, now.Add(recheck))
			t.note(now)
			t.serveNext(now)
		})
	}
}

// of yields each loop's view of one target.
func (ls loops) of(spec *roster.Target) iter.Seq[*target] {
	return func(yield func(*target) bool) {
		for _, s := range ls {
			if t := (*s.seen.Load())[spec]; t != nil && !yield(t) {
				return
			}
		}
	}
}
