package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"weir/proxy/deferred"
)

// Read implements deferred.Queue.
func (q *Queue) Read(ctx context.Context, id deferred.ID) (*deferred.Entry, int, error) {
	result, err := q.do(ctx, &ask{script: q.scripts.read, args: []string{string(id[:])}})
	if err != nil {
		return nil, 0, err
	}
	values := list(result)
	if len(values) != 2 {
		return nil, 0, deferred.ErrNotFound
	}
	e, err := q.codec.entry(id, values[0])
	if err != nil {
		return nil, 0, fmt.Errorf("read entry %s: %w", id, err)
	}
	r := reader{values[1:]}
	return e, int(r.int()), nil
}

// Known implements deferred.Queue.
func (q *Queue) Known(ctx context.Context, scope deferred.SHA256) (bool, error) {
	name := q.codec.seal.Scope(scope)
	result, err := q.do(ctx, &ask{script: q.scripts.known, args: []string{digest(name)}})
	return result == int64(1), err
}

// List implements deferred.Queue.
func (q *Queue) List(ctx context.Context, query deferred.Query) (page deferred.Page, err error) {
	after, err := query.Start()
	if err != nil {
		return page, err
	}
	result, err := q.do(ctx, &ask{script: q.scripts.list, args: []string{decimal(int(query.State)), query.Rule,
		decimal(after), decimal(query.Limit)}})
	if err != nil {
		return page, err
	}
	rows := list(result)
	for _, v := range rows {
		r := reader{list(v)}
		id := r.id()
		after = uint64(r.int())
		if e, err := q.codec.entry(id, r.value()); err == nil { // an unreadable one is set aside when it is claimed
			page.Entries = append(page.Entries, e)
		}
	}
	if len(rows) == query.Limit {
		page.Next = decimal(after)
	}
	return page, nil
}

// editWithdraw is the action of edit.lua that removes waiting entries; the others are those of
// [deferred.Action].
const editWithdraw = 3

// Results of edit.lua for an entry.
const (
	editChanged int64 = iota
	editNotFound
	editState
	editLost
)

// Edit implements deferred.Queue. An Edit of many is done in several calls.
func (q *Queue) Edit(ctx context.Context, now time.Time, e deferred.Edit) (n int, err error) {
	return deferred.EditByID(ctx, q, e, func(ids []deferred.ID) (refused []error, err error) {
		for some := range slices.Chunk(ids, callMax) {
			results, err := q.edit(ctx, now, e, some)
			if err != nil {
				return refused, err
			}
			for _, r := range results {
				refused = append(refused, editError(r))
			}
		}
		return refused, nil
	})
}

func (q *Queue) edit(ctx context.Context, now time.Time, e deferred.Edit, ids []deferred.ID) ([]int64, error) {
	a := &ask{script: q.scripts.edit, writes: true, args: []string{
		decimal(int(e.Action)), decimal(deferred.UnixMicros(now)), decimal(q.cfg.Limits.DeadKeep.Microseconds()),
		decimal(e.Result.Size()), q.codec.result(e.Result, e.ID), decimal(q.cfg.Limits.FinalBytesMax())}}
	for _, id := range ids {
		a.args = append(a.args, string(id[:]))
	}
	if e.Action == editWithdraw { // called by retry while the queue is unavailable
		q.ask(ctx, a)
	} else if _, err := q.do(ctx, a); err != nil {
		return nil, err
	}
	if a.err != nil {
		return nil, a.err
	}
	values := list(a.answer.result)
	if len(values) != len(ids) {
		return nil, errReply
	}
	r := reader{values}
	results := make([]int64, len(ids))
	for i := range results {
		results[i] = r.int()
	}
	return results, nil
}

// editError returns why an entry was not changed, or nil.
func editError(result int64) error {
	switch result {
	case editChanged:
		return nil
	case editNotFound:
		return deferred.ErrNotFound
	case editLost:
		return errors.New("its request no longer exists")
	}
	return deferred.ErrState
}

func (q *Queue) look(ctx context.Context) {
	a := &ask{script: q.scripts.stats}
	if q.ask(ctx, a); a.err == nil {
		q.figures.keep(&a.answer)
	} else if ctx.Err() == nil {
		_ = q.noted(a.err) // recorded
	}
}

// watch reads the figures and the server's settings periodically, as other proxies change the
// queue and operators the settings.
func (q *Queue) watch() {
	figures, settings := time.NewTicker(lookEvery), time.NewTicker(settingsEvery)
	defer figures.Stop()
	defer settings.Stop()
	for {
		select {
		case <-q.ctx.Done():
			return
		case <-figures.C:
			if q.unavailable() == nil {
				q.look(q.ctx)
			}
		case <-settings.C:
			if q.unavailable() == nil {
				q.readSettings(q.ctx)
			}
		}
		if q.box.Closed() {
			return
		}
	}
}
