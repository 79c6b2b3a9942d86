package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"weir/proxy/deferred"
	"weir/proxy/store"
	"weir/proxy/store/postgres"
)

const (
	// groupMax and groupBytesMax bound a statement.
	groupMax      = 256
	groupBytesMax = 8 << 20
	// againMax is how often a statement is repeated after a conflict with another.
	againMax = 3
)

// A putting is a Put to be stored.
type putting struct {
	*deferred.PutRequest
	now time.Time
}

// Put implements deferred.Queue.
func (q *Queue) Put(now time.Time, p *deferred.PutRequest) {
	q.puts.Put(&putting{p, now}, p)
}

// keepStoring stores puts in groups until the queue is closed.
func (q *Queue) keepStoring() {
	retry := time.NewTicker(retryEvery)
	defer retry.Stop()
	q.puts.Run(retry.C, q.storeAll, q.mend)
	q.storeAll() // answers the others
}

func (q *Queue) storeAll() {
	for group := q.puts.Dequeue(groupMax, groupBytesMax); len(group) > 0; group = q.puts.Dequeue(groupMax, groupBytesMax) {
		q.store(group)
	}
}

// store stores a group. If the server rejects it because of one entry, that entry is found by
// bisection.
func (q *Queue) store(group []*putting) {
	if err := q.puts.Err(); err != nil { // also if the queue is closed
		for _, p := range group {
			q.puts.Stored(p.PutRequest, deferred.PutFailed(err))
		}
		return
	}
	mends := q.mendedTimes()
	results, err := q.stored(group)
	if err == nil {
		for i, p := range group {
			q.puts.Stored(p.PutRequest, results[i])
		}
		return
	}
	if concernsOne(err) && len(group) > 1 {
		q.store(group[:len(group)/2])
		q.store(group[len(group)/2:])
		return
	}
	if !postgres.HadNoEffect(err) {
		q.doubt(group)
	}
	s := deferred.PutFailed(q.failed(err, mends))
	if postgres.ViolatesIndex(err, "deferred_scope") {
		s = deferred.PutResult{Outcome: deferred.Storing} // another proxy stores the same
	}
	for _, p := range group {
		q.puts.Stored(p.PutRequest, s)
	}
}

// concernsOne reports whether an error concerns only this statement.
func concernsOne(err error) bool {
	f := postgres.Classify(err)
	return f.Class == store.ItemFault && f.Code != codeMode
}

// codeMode is the SQLSTATE of deferred_put_1 if the queue is encrypted with another key or not at all.
const codeMode = "WR002"

// spreads reports whether an error concerns all following statements.
func spreads(err error) bool {
	f := postgres.Classify(err)
	return f.Class == store.OutageFault || f.Class == store.TimeoutFault && !postgres.HadNoEffect(err) ||
		postgres.TimedOut(err) || f.Code == codeMode
}

// doubt notes entries that were answered Unstored and may be stored.
func (q *Queue) doubt(group []*putting) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, p := range group {
		q.doubtful = append(q.doubtful, postgres.UUID(p.Entry.ID))
	}
}

// A group is the arguments of deferred_put_1.
type group struct {
	names, clients, ids, scopes, prints []postgres.UUID
	rules                               []string
	shared, numbers                     []int64
	abouts, requests                    [][]byte
	lineAt, clientAt                    map[postgres.UUID]int64 // indexes, from 1
}

// stored stores a group, and returns the result of each put.
func (q *Queue) stored(puts []*putting) (results []deferred.PutResult, err error) {
	g := &group{lineAt: make(map[postgres.UUID]int64), clientAt: make(map[postgres.UUID]int64)}
	for _, p := range puts {
		q.gather(g, p)
	}
	limits := &q.cfg.Limits
	entries, bytes := limits.ShareMax()
	args := new(postgres.Args).Int8(q.at(puts[len(puts)-1].now)).Int8(q.slot).Bytes(q.mode).Int8s([]int64{
		int64(limits.Entries), limits.Bytes, entries, bytes}).
		UUIDs(g.names).Texts(g.rules).Int8s(g.shared).UUIDs(g.clients).UUIDs(g.ids).UUIDs(g.scopes).UUIDs(g.prints).
		Int8s(g.numbers).BytesList(g.abouts).BytesList(g.requests)
	f, err := q.insist(q.ctx, "deferred_put_1", args)
	if err != nil {
		return nil, err
	}
	records := f.Records()
	if len(records) != len(puts) {
		return nil, errors.Join(errAnswer, f.Err)
	}
	for i, r := range records {
		results = append(results, q.outcomeOf(puts[i], r))
		if r.Err != nil {
			return nil, r.Err
		}
	}
	return results, q.learn(f)
}

// errAnswer is the error of an answer that does not have the form of the function's.
var errAnswer = errors.New("the answer of PostgreSQL has an unexpected form")

// insist calls a function that writes, and repeats the call after conflicts with other statements.
func (q *Queue) insist(ctx context.Context, function string, args *postgres.Args) (f *postgres.Fields, err error) {
	for range againMax {
		once, cancel := context.WithTimeout(ctx, q.cfg.silence)
		f, _, err = q.write(once, function, args)
		cancel()
		if err == nil || postgres.Classify(err).Class != store.TimeoutFault || !postgres.HadNoEffect(err) ||
			postgres.TimedOut(err) {
			break
		}
	}
	return f, err
}

func (q *Queue) gather(g *group, p *putting) {
	e := p.Fresh()
	names := q.seal.Digests(&e)
	line, client := postgres.UUID(names.LineKey), postgres.UUID(names.Client)
	if g.lineAt[line] == 0 {
		g.names, g.rules, g.shared = append(g.names, line), append(g.rules, e.Rule), append(g.shared, bit(e.LineKey == ""))
		g.lineAt[line] = int64(len(g.names))
	}
	if client != (postgres.UUID{}) && g.clientAt[client] == 0 {
		g.clients = append(g.clients, client)
		g.clientAt[client] = int64(len(g.clients))
	}
	g.ids, g.scopes, g.prints = append(g.ids, postgres.UUID(e.ID)), append(g.scopes, postgres.UUID(names.Scope)),
		append(g.prints, postgres.UUID(names.Fingerprint))
	g.numbers = append(g.numbers, g.lineAt[line], g.clientAt[client], q.clock.there(e.Accepted),
		q.clock.there(e.Expires), q.clock.there(e.Due),
		e.Size(), int64(len(e.Head)+len(e.Body)), int64(p.PerKey), int64(e.ParallelMax()), bit(p.Follows))
	g.abouts, g.requests = append(g.abouts, q.about(&e)), append(g.requests, q.request(&e))
}

// bit returns a boolean as the functions expect it in a list of numbers.
func bit(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

func (q *Queue) outcomeOf(p *putting, r *postgres.Fields) deferred.PutResult {
	s := deferred.PutResult{Outcome: deferred.Outcome(r.Int8()), Bound: deferred.ExceededBound(r.Int8()), ID: r.UUID(),
		State:    deferred.State(r.Int8()),
		Position: int(r.Int8())}
	due, expires := r.Int8(), r.Int8()
	s.Due, s.Expires = q.clock.here(due), q.clock.here(expires)
	switch s.Outcome {
	case deferred.Full:
		s.ID = deferred.ID{}
	case deferred.Accepted:
		s.Due, s.Expires = p.Entry.Due, p.Entry.Expires
		q.soon(min(p.Entry.Due.UnixMicro(), p.Entry.Expires.UnixMicro()))
		fallthrough
	default:
		s.Durability, s.Scope = q.Stats().Durability, deferred.ScopeShared
	}
	return s
}

// withdraw removes entries that were answered Unstored and may be stored.
func (q *Queue) withdraw() error {
	for some := range slices.Chunk(q.doubtful, groupMax) {
		f, err := q.insist(q.ctx, "deferred_bar_1", new(postgres.Args).Int8(0).Int8(barredFor.Microseconds()).UUIDs(some))
		if err == nil && f.Int8() > 0 {
			_, err = q.edit(q.ctx, time.Now(), edit{action: actionWithdraw, ids: some})
		}
		if err != nil {
			return err
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.doubtful = nil
	return nil
}

// barredFor is how long an entry cannot be stored, which is longer than any statement takes. A
// callback that was barred is put again, and its request is settled only then.
const barredFor = 2 * time.Minute

// soon makes the next claim ask the server by a time, in µs.
func (q *Queue) soon(us int64) {
	for {
		at := q.wakeAt.Load()
		if at <= us || q.wakeAt.CompareAndSwap(at, us) {
			return
		}
	}
}
