package simredis

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"testing"
	"time"

	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
	"weir/proxy/store"
)

// keysOf returns n keys of 20 bytes.
func keysOf(n int) [][]byte {
	keys := make([][]byte, n)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "client-%013d", i)
	}
	return keys
}

func askOf(rule string, key []byte, l *limit.Limit) *store.Ask {
	return &store.Ask{N: 1, Counters: []store.Counter{{Rule: rule, Key: key, Limit: l, Cost: 1}}}
}

var benchmarked = []limit.Config{
	{Algorithm: limit.Fixed, Limit: 1 << 50, Window: 3600},
	{Algorithm: limit.Sliding, Limit: 2_000_000_000, Window: 3600},
	{Algorithm: limit.Token, Capacity: 1_000_000, FillRate: 1_000_000},
	{Algorithm: limit.SlidingLog, Limit: limit.LogMax, Window: 0.05},
	{Algorithm: limit.GCRA, Limit: 1_000_000, Window: 1, Burst: 1_000_000},
	{Algorithm: limit.Leaky, Capacity: 1_000_000, FillRate: 1_000_000},
	{Algorithm: limit.Off},
	{Algorithm: limit.Fixed, Limit: 1, Window: 3600}, // refuses
}

func BenchmarkHotKey(b *testing.B) {
	for _, c := range benchmarked {
		name := c.Algorithm.String()
		if c.Limit == 1 {
			name = "refused"
		}
		b.Run(name, func(b *testing.B) {
			table := newTable(b, Config{})
			ask, ans := askOf("global", []byte("10.0.0.1"), limittest.Must(c)), new(store.Answer)
			now := time.UnixMicro(limittest.Epoch)
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(time.Microsecond)
				table.Take(now, ask, ans)
			}
		})
	}
}

func BenchmarkKeys(b *testing.B) {
	for _, n := range []int{10_000, 1_000_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			table := newTable(b, Config{})
			keys := keysOf(n)
			ask, ans := askOf("global", nil, limittest.Must(benchmarked[0])), new(store.Answer)
			now := time.UnixMicro(limittest.Epoch)
			for _, key := range keys {
				ask.Counters[0].Key = key
				table.Take(now, ask, ans)
			}
			r := rand.New(rand.NewPCG(1, 3))
			for b.Loop() {
				ask.Counters[0].Key = keys[r.IntN(n)]
				table.Take(now, ask, ans)
			}
		})
	}
}

// BenchmarkNewKey takes from a key that the table has not seen.
func BenchmarkNewKey(b *testing.B) {
	table := newTable(b, Config{})
	ask, ans := askOf("global", make([]byte, 0, 20), limittest.Must(benchmarked[0])), new(store.Answer)
	now := time.UnixMicro(limittest.Epoch)
	for i := 0; b.Loop(); i++ {
		ask.Counters[0].Key = strconv.AppendInt(ask.Counters[0].Key[:0], int64(i%9_000_000), 10)
		table.Take(now, ask, ans)
	}
}

func BenchmarkGroup(b *testing.B) {
	for _, n := range []int{2, 8} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			table := newTable(b, Config{})
			ask, ans := &store.Ask{N: 1}, new(store.Answer)
			for i := range n {
				ask.Counters = append(ask.Counters, askOf(fmt.Sprintf("rule-%d", i), []byte("10.0.0.1"),
					limittest.Must(benchmarked[0])).Counters...)
			}
			now := time.UnixMicro(limittest.Epoch)
			b.ReportAllocs()
			for b.Loop() {
				table.Take(now, ask, ans)
			}
		})
	}
}

// BenchmarkParallel asks for 10,000 keys from all processors.
func BenchmarkParallel(b *testing.B) {
	table := newTable(b, Config{})
	keys := keysOf(10_000)
	l := limittest.Must(benchmarked[2])
	b.RunParallel(func(pb *testing.PB) {
		r := rand.New(rand.NewPCG(1, 4))
		ask, ans := askOf("global", nil, l), new(store.Answer)
		for pb.Next() {
			ask.Counters[0].Key = keys[r.IntN(len(keys))]
			table.Take(time.UnixMicro(limittest.Epoch), ask, ans)
		}
	})
}

// BenchmarkParallelHotKey asks for one key from all processors.
func BenchmarkParallelHotKey(b *testing.B) {
	table := newTable(b, Config{})
	l := limittest.Must(benchmarked[2])
	b.RunParallel(func(pb *testing.PB) {
		ask, ans := askOf("global", []byte("10.0.0.1"), l), new(store.Answer)
		for pb.Next() {
			table.Take(time.UnixMicro(limittest.Epoch), ask, ans)
		}
	})
}

// BenchmarkMemory fills a table and reports what an idle key costs.
func BenchmarkMemory(b *testing.B) {
	for _, n := range []int{100_000, 400_000, 1_000_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) { benchmarkMemory(b, n, limittest.Must(benchmarked[0])) })
	}
	for _, c := range benchmarked[1:6] {
		b.Run(c.Algorithm.String(), func(b *testing.B) { benchmarkMemory(b, 1_000_000, limittest.Must(c)) })
	}
	b.Run("soft, not exceeded",
		func(b *testing.B) { benchmarkMemory(b, 1_000_000, limittest.Soft(benchmarked[2], 0.2, 30)) })
}

func benchmarkMemory(b *testing.B, n int, l *limit.Limit) {
	for b.Loop() {
		before := heap()
		table := newTable(b, Config{})
		var key []byte
		ans := new(store.Answer)
		for i := range n {
			key = fmt.Appendf(key[:0], "client-%013d", i)
			table.Take(time.UnixMicro(limittest.Epoch), askOf("global", key, l), ans)
		}
		b.ReportMetric(float64(heap()-before)/float64(n), "B/key")
		runtime.KeepAlive(table)
	}
}

// heap is how much memory is in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkExpire removes keys that have all expired.
func BenchmarkExpire(b *testing.B) {
	const n = 100_000
	l := limittest.Must(benchmarked[0])
	now := time.UnixMicro(limittest.Epoch)
	ans := new(store.Answer)
	for b.Loop() {
		b.StopTimer()
		table := newTable(b, Config{})
		for _, key := range keysOf(n) {
			table.Take(now, askOf("global", key, l), ans)
		}
		b.StartTimer()
		table.Expire(now.Add(2*time.Hour), 10*n)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/key")
}
