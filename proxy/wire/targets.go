package wire

import (
	"crypto/tls"
	"slices"
	"time"

	"weir/proxy/upstream"
)

// A Target is one target: as the settings name it, or one of the addresses of
// such a name.
//
// Immutable.
type Target struct {
	URL    string      // http://host:port or https://host:port
	Addr   string      // to connect to: host:port; the host of an address is one
	Host   string      // what the target is called in Host
	Secure *tls.Config // for https, with the name that the certificate must be for; nil: plain
}

func (t *Target) same(as *Target) bool {
	return t.URL == as.URL && t.Addr == as.Addr && t.Secure == as.Secure
}

// targetsWait is how long an own endpoint waits for the loops to tell.
const targetsWait = 2 * time.Second

// SetTargets replaces the targets. Those that stay, with the same Secure, keep their connections and
// their health; those that go finish what is under way on them. It returns when
// every loop has the new list.
func (f *Front) SetTargets(list []*Target) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.declared = list
	f.names.follow(list)
	f.setSpecs()
}

// setSpecs makes the targets those that are declared, with the addresses that
// their names have now. mu is held.
func (f *Front) setSpecs() {
	next := f.names.expand(f.declared)
	for i, t := range next {
		if at := slices.IndexFunc(f.specs, t.same); at >= 0 {
			next[i] = f.specs[at]
		}
	}
	f.specs, f.numbers = next, numbered(next, f.numbers)
	f.checks.follow(next)
	f.onLoops(func(s *side, now time.Time) { s.setTargets(now, next) })
}

// numbered gives each target of a list a number, from 1: those that had one keep
// it, and those that are new take the least that are free.
func numbered(list []*Target, before map[*Target]int) map[*Target]int {
	numbers, taken := make(map[*Target]int, len(list)), make(map[int]bool, len(list))
	for _, t := range list {
		if n := before[t]; n > 0 {
			numbers[t], taken[n] = n, true
		}
	}
	free := 1
	for _, t := range list {
		if numbers[t] > 0 {
			continue
		}
		for taken[free] {
			free++
		}
		numbers[t], taken[free] = free, true
	}
	return numbers
}

// number is the target's, 0 when it has left the list.
func (f *Front) number(spec *Target) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.numbers[spec]
}

// onLoops has do called on every loop and waits for that, but not for ever.
func (f *Front) onLoops(do func(s *side, now time.Time)) {
	done := make(chan bool, len(f.sides))
	for _, s := range f.sides {
		s.loop.Post(func(now time.Time) {
			do(s, now)
			done <- true
		})
	}
	over := time.NewTimer(targetsWait)
	defer over.Stop()
	for range f.sides {
		select {
		case <-done:
		case <-over.C:
			return
		}
	}
}

// setTargets makes the loop's targets those of the list.
func (s *side) setTargets(now time.Time, list []*Target) {
	for _, at := range slices.Clone(s.targets.Targets()) {
		if !slices.Contains(list, at.Value.spec) {
			at.Value.retire(now)
		}
	}
	for _, spec := range list {
		if !slices.ContainsFunc(s.targets.Targets(), func(at *upstream.Target[*target]) bool { return at.Value.spec == spec }) {
			s.addTarget(now, spec)
		}
	}
	s.publish()
}

func (s *side) addTarget(now time.Time, spec *Target) {
	t := &target{side: s, spec: spec, pool: upstream.NewPool[*upstreamConn, *client](s.connsPerTarget, s.streamsPerTarget(), s.waitersMax)}
	t.at = s.targets.Add(t)
	t.note(now)
	t.serveNext(now)
}

// streamsPerTarget is how many of the loop's connections to one target may carry
// tunnels and streams: at least one.
func (s *side) streamsPerTarget() int {
	return max(1, int(float64(s.connsPerTarget)*s.front.cfg.StreamShare))
}

// publish lets others see the loop's targets.
func (s *side) publish() {
	seen := make(map[*Target]*target, len(s.targets.Targets()))
	for _, at := range s.targets.Targets() {
		seen[at.Value.spec] = at.Value
	}
	s.seen.Store(&seen)
}

// A TargetStatus is how one target is, over all loops.
type TargetStatus struct {
	Number      int    `json:"number"` // by which metrics and health tell it when everybody may read them
	URL         string `json:"url"`
	Address     string `json:"address"`         // connected to; of a name that was not found yet the name
	Status      string `json:"status"`          // up, probing, ejected, down; draining when the list has changed
	Cause       string `json:"cause,omitempty"` // why it is not up
	InFlight    int64  `json:"inFlight"`
	Connections struct {
		Idle       int64 `json:"idle"`
		Busy       int64 `json:"busy"`
		Connecting int64 `json:"connecting"`
	} `json:"connections"`
	Ejections uint64 `json:"ejections"`
	Check     string `json:"check"` // of active checks: unknown, up, down
}

// Targets tells how the targets are. Readiness and health call those down that are
// down here.
func (f *Front) Targets() []TargetStatus {
	f.onLoops(func(s *side, now time.Time) {
		for _, at := range s.targets.Targets() {
			at.Value.note(now)
		}
	})
	f.mu.Lock()
	specs := f.specs
	f.mu.Unlock()
	list := make([]TargetStatus, 0, len(specs))
	for _, spec := range specs {
		state := f.state(spec)
		verdict, _ := f.checks.verdict(spec)
		st := TargetStatus{Number: f.number(spec), URL: spec.URL, Address: spec.Addr, Check: verdict.String(), Status: state.status.String(), Cause: state.cause}
		for t := range f.each(spec) {
			st.InFlight += t.inFlight.Load()
			st.Connections.Idle += t.idle.Load()
			st.Connections.Busy += t.busy.Load()
			st.Connections.Connecting += t.connecting.Load()
			st.Ejections += uint64(t.ejections.Load())
		}
		list = append(list, st)
	}
	return list
}

// each yields what the loops have of one target.
func (f *Front) each(spec *Target) func(yield func(*target) bool) {
	return func(yield func(*target) bool) {
		for _, s := range f.sides {
			if t := (*s.seen.Load())[spec]; t != nil && !yield(t) {
				return
			}
		}
	}
}
