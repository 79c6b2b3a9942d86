package serve

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"weir/target/model"
)

// A station is the simulated service as all rooms share it.
//
// Whose alarm rings for the next event of the model is nobody's office: the room
// whose call makes the next event an earlier one sets its own alarm, so that no
// loop has to wake another for it. armed is the earliest time for which some
// alarm is set; it is never later than the next event. An alarm that another
// one has overtaken rings for nothing, which does no harm.
//
// Safe for concurrent use: a mutex guards the model, armed and all inboxes;
// plain is atomic.
type station struct {
	plain atomic.Bool // every request is served at once; the model need not be asked

	mu    sync.Mutex
	model *model.Model[*conn]
	armed time.Time // zero: no alarm is set
	done  []model.Done[*conn]
}

// newStation makes an idle service at now.
func newStation(now time.Time, cfg model.Config, seed uint64) (*station, error) {
	m, err := model.New[*conn](now, cfg, rand.New(rand.NewPCG(seed, 0)))
	if err != nil {
		return nil, err
	}
	st := &station{model: m}
	st.plain.Store(cfg.Plain())
	return st, nil
}

// arrive brings the request of c. Its outcome, when it is not final, comes to
// the inbox of c's room.
func (st *station) arrive(now time.Time, c *conn) model.Outcome {
	st.mu.Lock()
	defer st.mu.Unlock()
	ticket, outcome := st.model.Arrive(now, c)
	c.ticket = ticket
	st.arm(c.room)
	return outcome
}

// cancel forgets a request whose client went away.
func (st *station) cancel(t model.Ticket) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.model.Cancel(t)
}

// expire puts what has ended by now into the inboxes and appends to wake the
// rooms, other than r, that have to learn of it. r is the room that asks.
func (st *station) expire(now time.Time, r *room, wake []*room) []*room {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.armed.After(now) {
		st.armed = time.Time{}
	}
	st.done = st.model.Expire(now, st.done[:0])
	for _, d := range st.done {
		to := d.Who.room
		if len(to.inbox) == 0 && to != r {
			wake = append(wake, to)
		}
		to.inbox = append(to.inbox, d)
	}
	clear(st.done) // let go of the connections
	st.arm(r)
	return wake
}

// arm sees to it that some alarm rings when the model's next event is due. The
// caller holds the lock and is on the loop of r.
func (st *station) arm(r *room) {
	next, ok := st.model.Next()
	if ok && (st.armed.IsZero() || next.Before(st.armed)) {
		st.armed = next
		r.alarm.Set(next)
	}
}

// collect exchanges the inbox of r for the emptied box of the last time.
func (st *station) collect(r *room, emptied []model.Done[*conn]) []model.Done[*conn] {
	st.mu.Lock()
	defer st.mu.Unlock()
	full := r.inbox
	r.inbox = emptied
	return full
}

// config returns the behaviour in force.
func (st *station) config() model.Config {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.model.Config()
}

// change replaces the behaviour in force, before, by what edit makes of it. An
// error changes nothing. Somebody has to call expire afterwards.
func (st *station) change(now time.Time, edit func(model.Config) model.Config) (before, after model.Config, err error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	before = st.model.Config()
	after = edit(before)
	if err := st.model.Change(now, after); err != nil {
		return before, before, err
	}
	st.plain.Store(after.Plain())
	return before, after, nil
}

// busy returns how many requests have a worker.
func (st *station) busy() int {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.model.Busy()
}

// waiting returns how many requests wait for a worker.
func (st *station) waiting() int {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.model.Waiting()
}
