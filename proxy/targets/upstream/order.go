package upstream

import (
	"math/bits"
	"time"
)

// A turn says when it is a waiter's turn: that of the lowest score of its client, then of its key.
type turn struct{ client, key int }

// before reports whether a turn comes before another one.
func (t turn) before(o turn) bool {
	return t.client < o.client || t.client == o.client && t.key < o.key
}

// turn returns when it is w's turn. Clients without a place, now or recently, and keys that are
// not known, come after those with few places, and before those with more than an average.
func (l *Queue[W]) turn(at int64, w *Waiter[W]) (t turn) {
	t.client = score(&l.clients.own[w.who.client], at, l.clients.regular.usual())
	var key *places
	if i := l.keys.find(w.who.mark); i != stranger {
		key = &l.keys.known[i].places
	}
	t.key = score(key, at, l.keys.of[w.who.client].usual())
	return t
}

// score returns the recent average of places in units of 1/queueScore, or the number now if that is
// more, which it is only just after the first. None, now or recently, count as the usual number.
func score(p *places, at int64, usual float32) int {
	if p != nil {
		if mean, _ := p.lately(at); p.n > 0 || mean > 0 {
			return max(int(p.n), int(queueScore*mean))
		}
	}
	return int(queueScore * usual)
}

// best returns the next waiter of a rank, or nil. If all is true, greedy ones may get a
// place too.
func (l *Queue[W]) best(now time.Time, r *rank[W], all bool) (best *Waiter[W]) {
	for _, b := range r.bands {
		if b.histories[0].count+b.histories[1].count > 0 {
			best = l.better(now, b, all, best)
		}
	}
	return best
}

// better returns the next waiter of a band if its turn is before that of best, else best.
func (l *Queue[W]) better(now time.Time, b *band[W], all bool, best *Waiter[W]) *Waiter[W] {
	at := instant(now)
	var least turn
	if best != nil {
		least = l.turn(at, best)
	}
	for i := range b.some {
		for left := b.some[i]; left != 0; left &= left - 1 {
			bit := bits.TrailingZeros64(left)
			f := &b.fifos[64*i+bit]
			w := f.first
			if w == nil {
				b.some[i] &^= 1 << bit
				continue
			}
			if !all && l.greedy(now, w) {
				continue
			}
			lastFirst := !l.inOrder(now, b.history(w), w)
			if lastFirst {
				w = f.last
			}
			t := l.turn(at, w)
			if best != nil && (least.before(t) || t == least && (w.ticket > best.ticket) != lastFirst) {
				continue
			}
			if l.shared(now, w) {
				best, least = w, t
			}
		}
	}
	return best
}

// worst returns the waiter that would be served last, w included: of the lowest priority,
// of the client with the most waiters and of its key with the most, the one that has waited
// longest. Under overload it would wait in vain.
func (l *Queue[W]) worst(w *Waiter[W]) *Waiter[W] {
	for i := PriorityLevels - 1; i > int(w.rank); i-- {
		if out := l.crowd(&l.ranks[i]); out != nil {
			return out
		}
	}
	out := l.crowd(&l.ranks[w.rank])
	if out == nil || !l.outnumbers(out, w) {
		return w
	}
	return out
}

// outnumbers reports whether the client of a waiter has more waiters than that of w, or its key
// more than another key of the same client.
func (l *Queue[W]) outnumbers(out, w *Waiter[W]) bool {
	has, own := l.waits[out.who.client], l.waits[w.who.client]
	if out.who.client != w.who.client {
		return has > own
	}
	return out.queue.count > l.band(w).fifos[l.account(w)].count
}

// crowd returns the oldest waiter of the key with the most waiters, of the client with the
// most waiters, of a rank, or nil.
func (l *Queue[W]) crowd(r *rank[W]) *Waiter[W] {
	if r.count == 0 {
		return nil
	}
	var most *fifo[W]
	for _, b := range r.bands {
		for i := range b.fifos {
			f := &b.fifos[i]
			if f.count == 0 {
				continue
			}
			if most == nil {
				most = f
				continue
			}
			more := l.waits[f.first.who.client] - l.waits[most.first.who.client]
			if more > 0 || more == 0 && f.count > most.count {
				most = f
			}
		}
	}
	return most.first
}
