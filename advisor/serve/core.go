package serve

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"weir/advisor/forecast"
	"weir/advisor/policy"
	"weir/advisor/season"
	"weir/advisor/state"
)

const (
	// refitWait is how long a snapshot waits for a refit that is overdue, which
	// only happens when time is replayed.
	refitWait = 3 * time.Millisecond
	// refitLate is how many refits may be missed without waiting for the one that runs.
	refitLate = 3
	// A refit of steps so coarse that one is due with each is renewed after some.
	refitMin   = 10 * time.Minute
	refitSpans = 4
	// refitMax is how long a refit may take; what comes later is thrown away.
	refitMax = 5 * time.Second
	// youngRounds is how many rounds are so few that they may have been wrong.
	youngRounds = 20
)

// A result is what became of a snapshot; it is a label of a metric.
type result uint8

const (
	resultLearned  result = iota // learned from, and answered
	resultLate                   // not newer than its proxy's newest: answered
	resultBehind                 // far behind the others: answered
	resultAhead                  // it may begin another time: answered
	resultDoubtful               // its rate is not believed yet: answered
	resultOld                    // it is of a time that is over: refused
	resultInvalid                // its numbers or its form are wrong: refused
	resultFull                   // too many proxies: refused
	resultFailed                 // our own fault: answered
	resultsN       = iota
)

// String names the result as the metric does.
func (r result) String() string {
	return [...]string{"learned", "late", "behind", "ahead", "doubtful", "old", "invalid", "full", "failed"}[r]
}

// A reply is what a snapshot is answered with.
type reply struct {
	result  result
	limit   policy.Limit
	advice  policy.Recommendation // without the limit
	at      time.Time             // of the forecast
	points  []policy.Point        // every minute, for ten minutes
	newest  time.Time
	changed *change // what is to be logged
	err     error   // when it is refused
	stack   string  // of a failure
}

// A core knows everything and decides everything, for all goroutines at once.
//
// Safe for concurrent use: mu guards the fields below it; nothing is waited for
// and no more than about 100 µs is computed while it is held, but when time jumps
// and when an image is taken.
type core struct {
	tuning *Tuning
	keep   func(state.Record)                  // in the journal; nil: there is none
	fitted func(took time.Duration, err error) // told after a refit, without mu
	refits sync.WaitGroup

	mu       sync.Mutex
	now      *memory
	parked   *state.Image // what was set aside when time jumped; nil: nothing
	parkedTo time.Time    // its newest
	clock    clock
	doubts   doubts
	sequence uint64        // of the last record
	refit    *refit        // the one that runs; nil: none
	replays  bool          // the journal is replayed: of the refits only the last counts
	last     *forecast.Job // that one
	jumps    uint64
}

// A refit is one that runs.
type refit struct {
	at   time.Time // newest of its data
	done chan struct{}
}

func newCore(t *Tuning) *core {
	return &core{tuning: t, now: newMemory(t), fitted: func(time.Duration, error) {}}
}

// post takes in a snapshot and answers it.
func (c *core) post(s *snapshot) reply {
	c.await(s)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.take(s)
}

// pace is how often a refit is worth its while.
func pace(interval time.Duration) time.Duration { return max(refitMin, refitSpans*interval) }

// await waits a little for a refit that a replay has overtaken, so that it is not
// forecast for hours with what was fitted long ago.
func (c *core) await(s *snapshot) {
	r := c.overtaken(s)
	if r == nil {
		return
	}
	patience := time.NewTimer(refitWait)
	defer patience.Stop()
	select {
	case <-r.done:
	case <-patience.C:
	}
}

// overtaken is the refit that runs when it should have ended long ago; else nil.
func (c *core) overtaken(s *snapshot) *refit {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.refit; r != nil && s.at.Sub(r.at) > refitLate*pace(s.interval) {
		return r
	}
	return nil
}

// take is post with mu held. A fault of ours costs an answer, not the program: the
// limit in force stays.
func (c *core) take(s *snapshot) (r reply) {
	defer func() {
		if fault := recover(); fault != nil {
			r = hold(s, resultFailed, "internal_error", "the advisor failed, the limit stays")
			r.stack = fmt.Sprintf("%v\n%s", fault, debug.Stack())
		}
	}()
	switch c.clock.rule(s, c.view(s)) {
	case rulingLate:
		return c.answer(s, resultLate, nil)
	case rulingOld:
		c.note(s)
		r := reply{result: resultOld, newest: c.now.newest(), err: errOld}
		return r
	case rulingBehind:
		c.note(s)
		return hold(s, resultBehind, "behind", "the snapshot is far older than others, the limit stays")
	case rulingAhead:
		c.note(s)
		return hold(s, resultAhead, "clock_jump", "the snapshot is far ahead of the last one, the limit stays until more follow")
	case rulingForward:
		return c.forward(s)
	case rulingBack:
		return c.back(s)
	}
	return c.believe(s)
}

var errOld = errors.New("is more than a minute older than the newest snapshot")

// view is what the clock needs to know.
func (c *core) view(s *snapshot) view {
	m := c.now
	v := view{newest: m.newest(), own: m.fleet.last(s.instance), parked: c.parkedTo, young: c.parked == nil && m.rounds < youngRounds, others: m.fleet.others}
	if m.rounds == 0 { // imported history says nothing about the snapshots' time
		v.newest = m.fleet.Newest
	}
	return v
}

// note puts a snapshot into the journal, as it changed something.
func (c *core) note(s *snapshot) {
	c.sequence++
	if c.keep != nil {
		c.keep(state.Record{Sequence: c.sequence, Data: s.record()})
	}
}

// believe takes in a snapshot of the time we are in, unless its rate is in doubt.
func (c *core) believe(s *snapshot) (r reply) {
	most := c.now.believable()
	list := c.doubts.rule(s, most)
	if len(list) == 0 {
		c.note(s)
		return doubtful(s, most)
	}
	for i := range list {
		if t := &list[i]; t.at.After(c.now.fleet.last(t.instance)) {
			r = c.learn(t)
		} else {
			r = c.answer(t, resultLate, nil)
		}
	}
	return r
}

// learn takes in a snapshot that is believed.
func (c *core) learn(s *snapshot) reply {
	changed, err := c.now.learn(s)
	if err != nil {
		return reply{result: resultFull, err: err}
	}
	c.note(s)
	c.maybeRefit()
	return c.answer(s, resultLearned, changed)
}

// answer is the newest recommendation, as an answer to s.
func (c *core) answer(s *snapshot, what result, changed *change) reply {
	a := &c.now.advice
	r := reply{result: what, limit: a.Rec.Limit, advice: a.Rec, changed: changed}
	switch {
	case !known(s.limit):
		r = hold(s, what, "unknown_algorithm", "the algorithm is not known here, the limit stays")
	case !a.Given:
		return hold(s, what, policy.Hold, "nothing is known yet, the limit stays")
	}
	r.at = c.now.forecastAt()
	for _, p := range c.now.future.Outlook(answerHorizon, answerStep) {
		r.points = append(r.points, policy.Point{Q05: p.Q05, Q50: p.Q50, Q80: p.Q80, Q95: p.Q95, Q99: p.Q99})
	}
	if known(s.limit) && s.limit != a.Sum.Limit && s.limit.Algorithm == policy.Off {
		r.limit = s.limit // of several proxies one has its limiter off
	}
	return r
}

// What of the forecast is in every answer.
const (
	answerHorizon = 10 * time.Minute
	answerStep    = time.Minute
)

// hold answers with the limit in force.
func hold(s *snapshot, what result, code, reason string) reply {
	return reply{result: what, limit: s.limit, at: s.at, advice: policy.Recommendation{
		PredictedRPS: s.observed, Predicted95: s.observed, ValidFor: 2 * s.interval, Codes: []string{code}, Reason: reason,
	}}
}

// forward goes on in a time ahead, where more than one snapshot has come from.
func (c *core) forward(s *snapshot) reply {
	trail := c.clock.trail
	c.clock.forget()
	if c.parkedTo.After(c.now.newest()) && continues(s, c.parkedTo) {
		if err := c.exchange(); err != nil {
			return c.failed(s, err)
		}
	} else if err := c.park(); err != nil {
		return c.failed(s, err)
	}
	c.jumps++
	var r reply
	for i := range trail {
		r = c.believe(&trail[i])
	}
	return r
}

// back goes on in a time that was known, or in an empty one.
func (c *core) back(s *snapshot) reply {
	c.clock.forget()
	var err error
	if c.parked != nil && c.parkedTo.Before(c.now.newest()) && continues(s, c.parkedTo) {
		err = c.exchange()
	} else if err = c.park(); err == nil {
		c.now = newMemory(c.tuning)
	}
	if err != nil {
		return c.failed(s, err)
	}
	c.jumps++
	return c.believe(s)
}

// park sets a copy of the memory aside.
func (c *core) park() error {
	parts, err := c.now.parts(c.tuning)
	if err == nil {
		c.parked, c.parkedTo = &state.Image{Parts: parts}, c.now.newest()
	}
	return err
}

// exchange exchanges the memory with the one set aside.
func (c *core) exchange() error {
	m, damages := remember(c.tuning, c.parked)
	if len(damages) > 0 {
		return fmt.Errorf("what was set aside: %s", &damages[0])
	}
	if err := c.park(); err != nil {
		return err
	}
	c.now = m
	return nil
}

// failed answers when a memory cannot be written down or read.
func (c *core) failed(s *snapshot, err error) reply {
	r := hold(s, resultFailed, "internal_error", "the advisor failed, the limit stays")
	r.stack = err.Error()
	return r
}

// maybeRefit starts a refit when one is due and none runs.
func (c *core) maybeRefit() {
	if c.refit != nil {
		return
	}
	job, due := c.now.refit()
	if !due {
		return
	}
	m := c.now
	if c.replays {
		c.last = job
		return
	}
	r := &refit{at: m.newest(), done: make(chan struct{})}
	c.refit = r
	c.refits.Go(func() { c.run(r, m, job.Run) })
}

var errSlow = fmt.Errorf("the refit took longer than %s", refitMax)

// run carries a refit out, away from mu, and adopts what it found.
func (c *core) run(r *refit, m *memory, fit func() (*season.Model, error)) {
	defer close(r.done)
	start := time.Now()
	model, err := protect(fit)
	took := time.Since(start)
	if err == nil && took > refitMax {
		err = errSlow
	}
	c.mu.Lock()
	c.refit = nil
	if err == nil && c.now == m { // the time is still the same
		_, err = protect(func() (*season.Model, error) { m.future.Adopt(model); return model, nil })
	}
	c.mu.Unlock()
	c.fitted(took, err)
}

// protect turns a panic into an error.
func protect(fit func() (*season.Model, error)) (model *season.Model, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("the refit failed: %v", fault)
		}
	}()
	return fit()
}
