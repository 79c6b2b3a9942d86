package postgres

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"weir/proxy/deferred"
	"weir/proxy/store/postgres"
)

// ask calls a function for an operator or client. An error does not make the queue unusable.
func (q *Queue) ask(ctx context.Context, function string, args *postgres.Args) (*postgres.Fields, error) {
	if err := q.puts.Err(); err == deferred.ErrClosed {
		return nil, err
	}
	f, err := q.call(ctx, q.asks, function, args)
	if err != nil && q.puts.Err() == deferred.ErrClosed {
		err = deferred.ErrClosed
	}
	return f, err
}

// Read implements deferred.Queue.
func (q *Queue) Read(ctx context.Context, id deferred.ID) (*deferred.Entry, int, error) {
	f, err := q.ask(ctx, "deferred_read_1", new(postgres.Args).UUID(postgres.UUID(id)))
	if err != nil {
		return nil, 0, fmt.Errorf("read entry %s: %w", id, err)
	}
	position := int(f.Int8())
	records := f.Records()
	if len(records) != 1 {
		return nil, 0, fmt.Errorf("read entry %s: %w", id, errAnswer)
	}
	r, ok, err := readRow(records[0])
	switch {
	case err != nil:
		return nil, 0, fmt.Errorf("read entry %s: %w", id, err)
	case !ok:
		return nil, 0, deferred.ErrNotFound
	}
	e, err := q.entry(&r)
	if err != nil {
		return nil, 0, fmt.Errorf("read entry %s: %w", id, err)
	}
	return e, position, nil
}

// Known implements deferred.Queue.
func (q *Queue) Known(ctx context.Context, scope deferred.SHA256) (bool, error) {
	if err := q.puts.Err(); err != nil {
		return false, err
	}
	f, err := q.ask(ctx, "deferred_known_1", new(postgres.Args).UUID(postgres.UUID(q.seal.Scope(scope))))
	if err != nil {
		return false, err
	}
	return f.Int8() > 0, f.Err
}

// List implements deferred.Queue.
func (q *Queue) List(ctx context.Context, query deferred.Query) (page deferred.Page, err error) {
	after, err := query.Start()
	if err != nil {
		return page, err
	}
	f, err := q.list(ctx, query, after)
	if err != nil {
		return page, fmt.Errorf("list entries: %w", err)
	}
	records := f.Records()
	for _, record := range records {
		r, _, err := readRow(record)
		if err != nil {
			return page, fmt.Errorf("list entries: %w", err)
		}
		if len(records) == query.Limit {
			page.Next = strconv.FormatInt(r.seq, 10)
		}
		if e, err := q.entry(&r); err == nil { // an unreadable one is given up when it is claimed
			page.Entries = append(page.Entries, e)
		}
	}
	return page, f.Err
}

// list asks for the entries after a number.
func (q *Queue) list(ctx context.Context, query deferred.Query, after uint64) (*postgres.Fields, error) {
	return q.ask(ctx, "deferred_list_1",
		new(postgres.Args).Text(query.Rule).Int8(int64(query.State)).Int8(int64(after)).Int8(int64(query.Limit)))
}

// actionWithdraw is the action of deferred_edit_2 that removes waiting entries.
const actionWithdraw = 3

// An edit is the arguments of deferred_edit_2.
type edit struct {
	action       int64
	ids          []postgres.UUID
	rule         string
	state        deferred.State
	brief, whole []byte // of the result of what is cancelled
	size         int64  // of its head and body
}

// edit edits, and returns how many entries were changed and how many there are.
func (q *Queue) edit(ctx context.Context, now time.Time, e edit) (n [2]int64, err error) {
	f, err := q.insist(ctx, "deferred_edit_2",
		new(postgres.Args).Int8(q.at(now)).Int8(q.slot+2).Int8(e.action).Int8(q.cfg.Limits.DeadKeep.Microseconds()).
			UUIDs(e.ids).Text(e.rule).Int8(int64(e.state)).Int8(deferred.ListMax).Bytes(e.brief).Bytes(e.whole).Int8(e.size))
	if err != nil {
		return n, err
	}
	n = [2]int64{f.Int8(), f.Int8()}
	q.soon(0)
	return n, q.learn(f)
}

// Edit implements deferred.Queue.
func (q *Queue) Edit(ctx context.Context, now time.Time, e deferred.Edit) (int, error) {
	if err := q.puts.Err(); err != nil {
		return 0, err
	}
	one := edit{action: int64(e.Action), rule: e.Rule, state: e.State}
	if e.ID != (deferred.ID{}) {
		one.ids = []postgres.UUID{postgres.UUID(e.ID)}
		if r := e.Result; r != nil {
			one.brief, one.whole, one.size = q.result(e.ID, r.Brief()), q.result(e.ID, r), r.Size()
		}
	}
	mends := q.mendedTimes()
	n, err := q.edit(ctx, now, one)
	switch {
	case ctx.Err() != nil && err != nil: // the caller has left; the server may be fine
		return 0, err
	case err != nil:
		return 0, q.failed(err, mends)
	case one.ids != nil && n[1] == 0:
		return 0, deferred.ErrNotFound
	case one.ids != nil && n[0] == 0:
		return 0, deferred.ErrState
	}
	return int(n[0]), nil
}

// Pause implements deferred.Queue.
func (q *Queue) Pause(ctx context.Context, rule string, paused bool) error {
	if err := q.puts.Err(); err != nil {
		return err
	}
	f, err := q.ask(ctx, "deferred_pause_1", new(postgres.Args).Text(rule).Bool(paused))
	if err != nil {
		return err
	}
	q.soon(0)
	return q.learn(f)
}
