package port

import (
	"context"
	"sync"
	"time"

	"weir/internal/net/share"
	"weir/proxy/ask/check"
)

// editsMax bounds the edits that wait or are executed; beyond, or beyond an asker's share: 503.
const editsMax = 256

// edits are the edits that wait. Askers take turns.
//
// Safe for concurrent use: mu guards line.
type edits struct {
	arrived chan struct{} // one for each that waits
	mu      sync.Mutex
	line    *share.RoundRobin[edit]
}

// An edit is an edit that waits.
type edit struct {
	side    *side
	session *check.Session
	edit    *check.Edit
}

func (e edit) client() share.Client { return share.ClientOf(e.edit.From) }

func newEdits() *edits {
	return &edits{arrived: make(chan struct{}, editsMax), line: share.NewRoundRobin[edit](editsMax)}
}

// enter lets an edit wait, and reports whether it may.
func (q *edits) enter(e edit) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.line.Admits(e.client()) {
		return false
	}
	q.line.Enter(e.client(), e)
	q.arrived <- struct{}{} // has room, since the line is not longer
	return true
}

// next returns the next edit after it has arrived.
func (q *edits) next() edit {
	q.mu.Lock()
	defer q.mu.Unlock()
	e, _ := q.line.Next()
	return e
}

// leave gives back the place of an edit that next has returned.
func (q *edits) leave(e edit) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.line.Leave(e.client())
}

// keepEditing executes edits one after another, except those whose exchanges have been answered
// without them, until ctx ends.
func (p *Server) keepEditing(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.edits.arrived:
			e := p.edits.next()
			changed, err := p.edit(e.edit)
			p.edits.leave(e)
			e.side.loop.Post(func(now time.Time) {
				if e.session.HandleEdited(now, e.edit, changed, err) {
					e.side.env.Answered(now, e.session)
				}
			})
		}
	}
}

func (p *Server) edit(e *check.Edit) (bool, error) {
	switch {
	case !time.Now().Before(e.Until):
		return false, check.ErrLate
	case e.Add == 0:
		return p.cfg.Store.Forget(e.Rule, e.Key)
	}
	return p.cfg.Store.Add(e.Rule, e.Key, e.Add)
}
