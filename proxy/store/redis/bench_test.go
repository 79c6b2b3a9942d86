package redis

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
	"weir/proxy/store"
	"weir/proxy/store/redis/redistest"
)

// clients is how many asks are under way in the benchmarks, as with so many
// connections that each wait for an answer.
const clients = 64

// BenchmarkLane has clients on one loop ask again as soon as they are answered.
// It reports decisions per second, commands per decision, and the processor time
// of Redis per decision.
func BenchmarkLane(b *testing.B) {
	limits := []limit.Config{
		{Algorithm: limit.Fixed, Limit: 1 << 40, Window: 3600},
		{Algorithm: limit.Sliding, Limit: 1 << 30, Window: 3600},
		{Algorithm: limit.Token, Capacity: 1 << 30, FillRate: 1 << 20},
		{Algorithm: limit.GCRA, Limit: 1 << 20, Window: 1, Burst: 1 << 30},
		{Algorithm: limit.Leaky, Capacity: 1 << 30, FillRate: 1 << 20},
		{Algorithm: limit.SlidingLog, Limit: limit.LogMax, Window: 0.1},
	}
	for _, keys := range []int{1, 10_000} {
		for _, inFlight := range []int{1, 2, 4} {
			for _, cfg := range limits {
				if inFlight != 2 && cfg.Algorithm != limit.Fixed {
					continue
				}
				b.Run(fmt.Sprintf("keys=%d/flight=%d/%v", keys, inFlight, cfg.Algorithm), func(b *testing.B) {
					benchmarkLane(b, keys, inFlight, limittest.Must(cfg))
				})
			}
		}
	}
}

func benchmarkLane(b *testing.B, keys, inFlight int, lim *limit.Limit) {
	s := redistest.Start(b)
	cfg := config(s)
	cfg.InFlight = inFlight
	c := newTestStore(b, cfg)
	l := newLoop(b, c)
	names := make([][]byte, keys)
	for i := range names {
		names[i] = []byte("client-" + strconv.Itoa(i))
	}
	over := make(chan struct{})
	left, next := b.N, 0
	ask := store.Ask{N: 1, Counters: []store.Counter{{Rule: "global", Limit: lim, Cost: 1}}}
	var ans store.Answer
	var again func(now time.Time, _ *store.Answer)
	again = func(now time.Time, _ *store.Answer) {
		if left--; left == 0 {
			close(over)
		}
		if left < clients {
			return
		}
		ask.Counters[0].Key = names[next%keys]
		next++
		if l.lane.Ask(now, &ask, &ans, again) {
			b.Errorf("answered at once: %+v", ans)
		}
	}
	l.ask(1, store.Counter{Rule: "global", Limit: lim, Cost: 1})
	before, used := c.Stats(), cpu(s)
	b.ResetTimer()
	l.post(func(now time.Time) {
		left += clients
		for range clients {
			again(now, nil)
		}
	})
	<-over
	b.StopTimer()
	after := c.Stats()
	n := float64(b.N)
	b.ReportMetric(n/b.Elapsed().Seconds(), "decisions/s")
	b.ReportMetric(float64(after.Commands-before.Commands)/n, "commands/decision")
	b.ReportMetric((cpu(s)-used).Seconds()*1e6/n, "redis-µs/decision")
}

// cpu is the processor time that the server has used.
func cpu(s *redistest.Server) (used time.Duration) {
	lines := bufio.NewScanner(strings.NewReader(s.Do("info", "cpu")))
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			seconds, _ := strconv.ParseFloat(strings.TrimSpace(value), 64)
			used += time.Duration(seconds * float64(time.Second))
		}
	}
	return used
}
