package redis

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"weir/proxy/deferred"
	"weir/proxy/store/redis"
)

var _ deferred.Queue = (*Queue)(nil)

// Open returns the queue. While Redis is unavailable it refuses puts and keeps trying; the error
// is one that only an operator can fix.
func Open(cfg Config) (*Queue, error) {
	q := &Queue{cfg: cfg, scripts: newScripts(), log: cmp.Or(cfg.Log, slog.New(slog.DiscardHandler)),
		about: cfg.Redis.KeyPrefix + namespace + "about",
		began: time.Now(), box: deferred.NewWriteBuffer[*op](), durable: durabilityUnknown,
		givenUp: make(deferred.GivenUpCounts)}
	sealer, err := deferred.NewSealer(cfg.Key)
	if err != nil {
		return nil, fmt.Errorf("open queue in redis: %w", err)
	}
	q.codec = codec{sealer}
	if q.client, err = redis.NewClient(cfg.Redis, unanswered); err != nil {
		return nil, fmt.Errorf("open queue in redis: %w", err)
	}
	q.ctx, q.cancel = context.WithCancel(context.Background())
	if err := q.probe(); err != nil {
		f := q.faultOf(err)
		if f.permanent {
			q.cancel()
			q.client.Close()
			return nil, fmt.Errorf("open queue in redis: %w", f)
		}
		q.broken(f)
	} else {
		q.look(q.ctx)
		q.readSettings(q.ctx)
		s := q.Stats()
		waiting, dead := s.Totals()
		q.log.Info("Opened queue", "waiting", waiting, "dead", dead, "durability", s.Durability)
	}
	q.ended.Go(q.write)
	q.ended.Go(q.watch)
	return q, nil
}

// Stats implements deferred.Queue.
func (q *Queue) Stats() deferred.Stats {
	s := q.figures.stats()
	s.Err = q.box.Err()
	q.mu.Lock()
	defer q.mu.Unlock()
	s.Unreadable, s.Durability, s.GivenUp, s.Evicted = q.damaged, q.durable, maps.Clone(q.givenUp), q.evicted
	return s
}

// closeWithin is how long Close waits for calls in progress.
const closeWithin = deferred.CloseTimeout * 7 / 10

// Close implements deferred.Queue. It must not be called by Done.
func (q *Queue) Close() error {
	first := q.box.Close()
	if first {
		timer := time.AfterFunc(cmp.Or(q.cfg.patience, closeWithin), q.cancel)
		defer timer.Stop()
	}
	q.ended.Wait()
	if first {
		q.cancel()
		q.client.Close()
	}
	return nil
}
