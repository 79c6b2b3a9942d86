package port

import (
	"strings"
	"time"

	"weir/internal/net/share"
	"weir/proxy/ask/check"
	"weir/proxy/rules/descriptor"
	"weir/proxy/store"
)

// editsMax bounds the edits that wait or are executed, of all askers, who take turns; beyond, or beyond an asker's
// share: 503.
const editsMax = 256

// An edit is an edit that waits.
type edit struct {
	side    *side
	session *check.Session
	edit    *check.Edit
}

func (e edit) client() share.Client { return share.ClientOf(e.edit.From) }

// keepEditing executes edits one after another until p.edits is closed, and those that wait then. It skips
// those whose exchanges have been answered without them.
func (p *Server) keepEditing() {
	for e, ok := p.edits.Next(); ok; e, ok = p.edits.Next() {
		changed, err := p.edit(e.edit)
		p.edits.Leave(e.client())
		e.side.loop.Post(func(now time.Time) {
			if e.session.HandleEdited(now, e.edit, changed, err) {
				e.side.env.Answered(now, e.session)
			}
		})
	}
}

func (p *Server) edit(e *check.Edit) (bool, error) {
	first, second := p.cfg.Store, p.cfg.PerSecond
	switch {
	case !time.Now().Before(e.Until):
		return false, check.ErrEditExpired
	case second != nil && e.PerSecond:
		return apply(e, second)
	case second != nil && e.Sidecar && strings.HasPrefix(e.Rule, descriptor.RulePrefix): // either may have the key
		changed, err := apply(e, first)
		if !changed {
			// An error of the second store is not reported: the sidecar would treat the master as unavailable,
			// and counters of that store expire after a second.
			if changed, _ = apply(e, second); changed {
				err = nil
			}
		}
		return changed, err
	}
	return apply(e, first)
}

// apply executes an edit in one store.
func apply(e *check.Edit, s store.Store) (changed bool, err error) {
	if e.Add == 0 {
		return s.Forget(e.Rule, e.Key)
	}
	return s.Add(e.Rule, e.Key, e.Add)
}
