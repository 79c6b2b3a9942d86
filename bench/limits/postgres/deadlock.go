package postgres

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"weir/bench/lab/result"
	"weir/bench/lab/rig"
)

const (
	sessions       = 24
	sessionAsks    = 400
	deadlockPeriod = 50 * time.Millisecond
	// stallMin is the least answer time that counts as stalled: PostgreSQL looks for deadlocks
	// after deadlock_timeout, 1 s.
	stallMin = 900 * time.Millisecond
)

// A contention is the outcome of sessions that ask about one user at the same time.
type contention struct {
	admitted, refused, failed int
	stalled                   time.Duration // sum of the answer times above stallMin
	took                      time.Duration // in total
	spans                     result.Latencies
}

// contend runs many sessions, each of which asks one request after another.
func contend(ctx context.Context, asks int, ask func(ctx context.Context, session int) (bool, error)) (c contention) {
	var mu sync.Mutex
	began := time.Now()
	rig.Parallel(sessions, func(i int) {
		for range asks {
			if ctx.Err() != nil {
				return
			}
			sent := time.Now()
			admitted, err := ask(ctx, i)
			mu.Lock()
			c.count(admitted, err, time.Since(sent))
			mu.Unlock()
		}
	})
	c.took = time.Since(began)
	slices.Sort(c.spans)
	return c
}

func (c *contention) count(admitted bool, err error, span time.Duration) {
	c.spans = append(c.spans, span)
	if span > stallMin {
		c.stalled += span
	}
	switch {
	case codeOf(err) == "40P01":
		// PostgreSQL counts these
	case err != nil:
		c.failed++
	case admitted:
		c.admitted++
	default:
		c.refused++
	}
}

// deadlocks has 24 sessions ask about one user, with the range recipe and through Weir.
func (l *lab) deadlocks() {
	l.Heading("Deadlocks")
	l.Note("%d sessions, each %d requests of one user one after another; one may pass in %v.", sessions, sessionAsks,
		deadlockPeriod)
	t := result.NewTable(
		"way | admitted | refused | failed | deadlocks | in the log | stalled s | took s | p50 ms | p99 ms | max ms")
	c := &contest{period: deadlockPeriod}
	for _, name := range []string{"range", weirSide} {
		var got contention
		var deadlocks int64
		logged := 0
		l.turn(name, func() {
			s := c.begin(l.Lab, name)
			got = contend(l.Ctx, sessionAsks, c.asker(s))
			rig.Check(l.Ctx.Err())
			deadlocks, logged = s.spent().deadlocks, strings.Count(s.Output(), "detected deadlock while waiting")
		})
		t.Add("%s | %d | %d | %d | %d | %d | %.1f | %.1f | %.2f | %.2f | %.0f", name, got.admitted, got.refused,
			got.failed, deadlocks, logged, got.stalled.Seconds(), got.took.Seconds(), got.spans.Millis(.5),
			got.spans.Millis(.99), got.spans.Millis(1))
		if name == weirSide {
			l.AtMost("weir, all sessions: admitted", float64(got.admitted), 1+float64(got.took)/float64(deadlockPeriod))
			l.Never(deadlocks > 0, "weir: %d deadlocks", deadlocks)
			l.Never(got.failed > 0, "weir: %d of the sessions' requests failed", got.failed)
		}
	}
	l.Table(t)
}

// asker returns how sessions ask: a recipe on connections of their own to the database, Weir with
// requests.
func (c *contest) asker(s *side) func(ctx context.Context, session int) (bool, error) {
	way := recipeNamed(s.name)
	if way == nil {
		return s.request
	}
	conns := make([]*pgconn.PgConn, sessions)
	for i := range conns {
		conns[i] = rig.Must(pgconn.Connect(s.lab.Ctx, s.URL()))
		s.lab.Cleanup(func() { _ = conns[i].Close(context.Background()) })
	}
	return func(ctx context.Context, session int) (bool, error) {
		return way.admit(ctx, conns[session], ask{"user", time.Now().UnixMicro(), c.period.Microseconds()})
	}
}

// request sends a request to an instance and reports whether it was admitted.
func (s *side) request(ctx context.Context, session int) (bool, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.addrs[session%len(s.addrs)]+s.path, nil)
	if err != nil {
		return false, err
	}
	status, _, err := rig.Do(http.DefaultClient, req)
	if err == nil && status != http.StatusOK && status != http.StatusTooManyRequests {
		err = fmt.Errorf("status %d", status)
	}
	return status == http.StatusOK, err
}
