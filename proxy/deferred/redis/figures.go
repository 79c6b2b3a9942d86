package redis

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"weir/proxy/deferred"
)

// An answer is the form of all scripts' answers; see answer in lua/common.lua.
type answer struct {
	late   bool
	now    int64  // the time of the queue, in µs
	number uint64 // of the call, or of the last one that wrote if this one only reads
	next   int64  // when there is something to claim, take back or forget, in µs; 0: never
	bytes  int64
	rules  []deferred.RuleStats
	result any

	evicted uint64 // how many final entries the call has deleted before their time
}

func parseAnswer(v any) (a answer, err error) {
	values := list(v)
	if len(values) == 2 && values[0] == "late" {
		r := reader{values[1:]}
		return answer{late: true, now: r.int()}, nil
	}
	if len(values) != 7 {
		return a, errReply
	}
	r := reader{values}
	a.now, a.number, a.next, a.bytes = r.int(), uint64(r.int()), r.int(), r.int()
	for _, v := range list(r.value()) {
		a.rules = append(a.rules, parseRule(list(v)))
	}
	a.result, a.evicted = r.value(), uint64(r.int())
	return a, nil
}

func parseRule(values []any) (s deferred.RuleStats) {
	r := reader{values}
	s.Rule, s.Paused = r.text(), r.int() == 1
	for i := range s.States {
		s.States[i].Entries = int(r.int())
	}
	for i := range s.States {
		s.States[i].Bytes = r.int()
	}
	s.Oldest = r.time()
	return s
}

// figures are the latest figures of the queue, taken from answers.
//
// Safe for concurrent use: mu guards all fields.
type figures struct {
	mu     sync.Mutex
	latest uint64 // the number of the latest answer
	bytes  int64
	next   time.Time // when there is something to claim or to clean up, by this proxy's clock; zero: not known
	idle   bool      // there is nothing to claim or to clean up
	read   time.Time // when next was read
	rules  map[string]figure
}

// A figure is the state of a rule, and the number of the answer that contained it.
type figure struct {
	deferred.RuleStats
	number uint64
}

func (f *figures) number() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.latest
}

// restart resets the figures because the server has lost its state. It returns false if the
// figures are older than the given number, and keeps them.
func (f *figures) restart(number uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.latest < number {
		return false
	}
	f.latest, f.bytes, f.idle, f.next, f.rules = 0, 0, false, time.Time{}, nil
	return true
}

// takeIn records an answer at now, unless a later one is known.
func (f *figures) takeIn(a *answer, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rules == nil {
		f.rules = make(map[string]figure)
	}
	for _, s := range a.rules {
		if a.number >= f.rules[s.Rule].number {
			f.rules[s.Rule] = figure{s, a.number}
		}
	}
	if a.number < f.latest {
		return
	}
	f.latest, f.bytes, f.read = a.number, a.bytes, time.Now()
	f.idle, f.next = a.next == 0, now.Add(time.Duration(a.next-a.now)*time.Microsecond)
}

// keep forgets rules that a complete answer does not list.
func (f *figures) keep(a *answer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, known := range f.rules {
		listed := slices.ContainsFunc(a.rules, func(s deferred.RuleStats) bool { return s.Rule == name })
		if !listed && known.number <= a.number {
			delete(f.rules, name)
		}
	}
}

// rest reports whether there is nothing to claim, as far as is known, and until when.
func (f *figures) rest(now time.Time) (next time.Time, rests bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	left := lookEvery - time.Since(f.read)
	if f.read.IsZero() || left <= 0 || !f.idle && !f.next.After(now) {
		return now, false
	}
	if next = now.Add(left); !f.idle && f.next.Before(next) {
		next = f.next
	}
	return next, true
}

func (f *figures) stats() (s deferred.Stats) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.Bytes = f.bytes
	for _, known := range f.rules {
		s.Rules = append(s.Rules, known.RuleStats)
	}
	slices.SortFunc(s.Rules, func(a, b deferred.RuleStats) int { return cmp.Compare(a.Rule, b.Rule) })
	return s
}
