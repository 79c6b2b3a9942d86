package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"weir/proxy/deferred"
	"weir/proxy/store"
	"weir/proxy/store/redis"
)

// Config describes where the queue is, and its bounds. All proxies that share a queue need the
// same Limits and the same Key.
type Config struct {
	Redis  redis.Config // where Redis is, and the prefix of its names
	Limits deferred.Limits
	Key    []byte       // 32 bytes, to encrypt entries; empty: they are not encrypted
	Log    *slog.Logger // nil: none

	patience time.Duration    // for tests: instead of answerWithin and closeWithin; 0: these
	clock    func() time.Time // for tests: instead of the clocks of proxy and server; nil: these
}

const (
	// namespace follows the prefix in all names; see lua/common.lua.
	namespace = "ratelimiter:{deferred}:"
	// An answer is waited for during answerWithin, and longer for a large request: by its size
	// divided by answerRate, in bytes per second.
	answerWithin = 2 * time.Second
	answerRate   = 1 << 20
	// unanswered is how long a connection may be without an expected answer. It is longer than
	// the wait for the largest pipeline.
	unanswered = 90 * time.Second
	// retryEvery is how often a server that has failed is tried again.
	retryEvery = 250 * time.Millisecond
	// lookEvery is how often the figures are read, and how often at least a claim looks for
	// entries of other proxies; settingsEvery is how often the server's settings are read.
	lookEvery     = time.Second
	settingsEvery = 10 * time.Second
)

const (
	// groupMax and groupBytesMax bound a pipeline, callMax and callBytesMax each call in it,
	// during which Redis runs no other commands.
	groupMax      = 1024
	groupBytesMax = 16 << 20
	callMax       = 64
	callBytesMax  = 1 << 20
	// doubtfulMax bounds the puts that are to be removed when the server answers again.
	doubtfulMax = 16384
)

// A Queue is a deferred.Queue in Redis.
//
// Safe for concurrent use: box passes puts and settlements to the writer, mu guards the state of
// the server, figures has its own mutex.
type Queue struct {
	cfg     Config
	codec   codec
	scripts scripts
	log     *slog.Logger
	client  *redis.Client
	about   string // the key that is passed to scripts
	began   time.Time
	figures figures
	box     *deferred.WriteBuffer[*op]

	ctx    context.Context // ends soon after Close
	cancel context.CancelFunc
	ended  sync.WaitGroup

	doubtful []deferred.ID // owned by the writer: puts that were answered Unstored and may be stored

	mu      sync.Mutex
	lost    []string // tokens of claims without an answer
	ahead   int64    // the queue's clock minus the time since began, in µs
	synced  bool     // ahead is known
	damaged int      // entries that cannot be read
	givenUp deferred.GivenUpCounts
	evicted uint64
	durable string
	evicts  bool
}

// An op is a put or a settlement to be written.
//
// Owned by the writer once it is pending.
type op struct {
	now    time.Time
	put    *deferred.PutRequest
	settle *deferred.Settlement
	again  bool // the settlement was sent before
	bytes  int
}

// errLate is the error of a script that the server reached after its caller's timeout.
var errLate = errors.New("redis did not answer in time")

// now is the time of this proxy.
func (q *Queue) now() time.Time {
	if q.cfg.clock != nil {
		return q.cfg.clock()
	}
	return time.Now()
}

// clockArgument returns the time that scripts use; if empty, they use the server's.
func (q *Queue) clockArgument() string {
	if q.cfg.clock == nil {
		return ""
	}
	return decimal(q.cfg.clock().UnixMicro())
}

// An ask is one run of a script, and its result.
type ask struct {
	script *redis.Script
	args   []string
	until  bool // it must not run after the caller's timeout
	writes bool // it has its own number

	answer answer
	err    error
}

// ask runs scripts in one pipeline, waits for the answers, and records the figures in them.
func (q *Queue) ask(ctx context.Context, asks ...*ask) {
	bytes := 0
	for _, a := range asks {
		for _, arg := range a.args {
			bytes += len(arg)
		}
	}
	within := cmp.Or(q.cfg.patience, answerWithin) + time.Duration(bytes)*time.Second/answerRate
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	q.send(ctx, within, asks)
	var late []*ask
	for _, a := range asks {
		if a.err == nil && a.answer.late {
			late = append(late, a)
		}
	}
	if len(late) > 0 { // the estimate of the queue's clock was wrong
		q.send(ctx, within, late)
		for _, a := range late {
			if a.err == nil && a.answer.late {
				a.err = errLate
			}
		}
	}
}

// send is ask without repeating late scripts.
func (q *Queue) send(ctx context.Context, within time.Duration, asks []*ask) {
	runs := make([]redis.ScriptCall, len(asks))
	until := q.until(within)
	for i, a := range asks {
		runs[i] = redis.ScriptCall{Script: a.script, Args: append([]string{q.codec.key(), q.clockArgument(), ""}, a.args...)}
		if a.until {
			runs[i].Args[2] = until
		}
	}
	known := q.figures.number()
	for i, r := range q.client.Run(ctx, q.about, runs...) {
		a := asks[i]
		a.answer, a.err = answer{}, r.Err
		if a.err == nil {
			a.answer, a.err = parseAnswer(r.Value)
		}
		if a.err == nil {
			q.sync(a.answer.now)
		}
		if a.err == nil && !a.answer.late {
			q.takeIn(known, a)
		}
		if a.err != nil && q.box.Closed() {
			a.err = fmt.Errorf("%w: %w", deferred.ErrClosed, a.err)
		}
	}
}

// until returns the end of a wait by the queue's clock, or "" if that clock is not known. It is
// early by as long as the last answer took to arrive.
func (q *Queue) until(within time.Duration) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.synced || q.cfg.clock != nil {
		return ""
	}
	return decimal(q.ahead + (time.Since(q.began) + within).Microseconds())
}

func (q *Queue) sync(now int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ahead, q.synced = now-time.Since(q.began).Microseconds(), true
}

// takeIn records the figures in an answer. known is the number of the last call that had been
// answered when this one was sent.
func (q *Queue) takeIn(known uint64, a *ask) {
	n := a.answer.number
	if n < known || n == known && a.writes {
		s := q.Stats()
		if q.figures.restart(n) {
			waiting, _ := s.Totals()
			q.log.Error("Redis has lost entries: it was emptied, or was restored to an earlier state", "held", waiting,
				"durability", s.Durability)
		}
	}
	q.figures.takeIn(&a.answer, q.now())
	q.mu.Lock()
	defer q.mu.Unlock()
	q.evicted += a.answer.evicted
}

// unavailable returns why scripts cannot be run. A server without memory can still deliver
// entries.
func (q *Queue) unavailable() error {
	err := q.box.Err()
	if f, ok := err.(*fault); ok && f.full {
		return nil
	}
	return err
}

// do runs one script for a waiting caller, and returns its result.
func (q *Queue) do(ctx context.Context, a *ask) (any, error) {
	if err := q.unavailable(); err != nil {
		return nil, err
	}
	q.ask(ctx, a)
	switch {
	case a.err == nil:
		return a.answer.result, nil
	case ctx.Err() != nil: // the caller has left; the server may be fine
		return nil, a.err
	}
	return nil, q.noted(a.err)
}

// noted records an error that concerns all callers.
func (q *Queue) noted(err error) error {
	if f := q.faultOf(err); f.class >= store.TimeoutFault && !q.box.Closed() {
		q.broken(f)
	}
	return err
}
