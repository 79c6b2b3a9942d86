package decision

import (
	"fmt"
	"time"

	"weir/bench/lab/result"
	"weir/bench/lab/rig"
)

const (
	connections = 64
	// callConnections carry the calls by gRPC, callStreams at the same time each.
	callConnections = 8
	callStreams     = 16

	spell  = 4 * time.Second // of each run of wrk
	rounds = 3
)

// script has wrk post requests for a number of users in turn.
const script = `wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
local n = 0
request = function()
  n = n + 1
  return wrk.format(nil, nil, nil, string.format('` + body + `', "u" .. n %% %d))
end
`

// speed compares decisions per CPU time, for one user and for many.
func (l *lab) speed() {
	redis, weir := l.withRedis()
	peer, peerURL, _ := l.peer(redis.Addr)
	all := []rig.ComparedProgram{{Name: "envoyproxy/ratelimit", Process: peer, Wrk: rig.Wrk{URL: peerURL}, Redis: redis},
		compared("Weir", weir, redis), compared("Weir, simulated Redis", l.weir(), nil)}
	l.Heading("Speed")
	l.Note("wrk posts to /json over %d connections, %d turns of %v. Weir has one event loop; envoyproxy/ratelimit uses "+
		"all cores.", connections, rounds, spell)
	for _, users := range []int{1, 1000} {
		for i := range all {
			all[i].Wrk.Script = fmt.Sprintf(script, "%s", users)
		}
		l.judge(all, l.Compare(all, rounds, connections, spell), users)
	}
}

// grpc compares decisions by gRPC per CPU time, for one user.
func (l *lab) grpc() {
	redis, weir := l.withRedis()
	simulated := l.weir()
	peer, _, call := l.peer(redis.Addr)
	all := []rig.ComparedProgram{{Name: "envoyproxy/ratelimit", Process: peer, Wrk: rig.Wrk{URL: call}, Redis: redis},
		compared("Weir", weir, redis), compared("Weir, simulated Redis", simulated, nil)}
	all[1].Wrk.URL, all[2].Wrk.URL = callURL(weir.Addr), callURL(simulated.Addr)
	for i := range all {
		all[i].Wrk.Message, all[i].Wrk.Streams = message("one"), callStreams
	}
	l.Heading("gRPC")
	l.Note("h2load calls ShouldRateLimit over %d connections with %d streams each, %d turns of %v. Weir has one "+
		"event loop; envoyproxy/ratelimit uses all cores.", callConnections, callStreams, rounds, spell)
	idle := make([]float64, len(all))
	for i := range all {
		idle[i] = float64(rig.Must(rig.RSS(all[i].Process.Pid()))) / 1e6
	}
	runs := l.Compare(all, rounds, callConnections*callStreams, spell)
	for _, m := range []*rig.DecisionServer{weir, simulated} {
		counts := l.Scrape(m.Own)
		const family, calls, good = "ratelimiter_check_requests_total", `api="grpc"`, `code="OK"`
		l.Never(counts.Sum(family, calls) != counts.Sum(family, calls, good), "calls ended with an error")
	}
	l.figures("gRPC", all, runs)
	l.atHalf(all, runs, idle)
	l.AtLeast("decisions by gRPC per CPU time, relative to the peer's", result.MedianOf(runs[1], perCPU)/
		result.MedianOf(runs[0], perCPU), 4)
	l.AtLeast("simulated Redis, one loop: decisions by gRPC per second", result.MedianOf(runs[2], rig.PerSecond), 80_000)
}

// atHalf compares how long calls take at half of the rate that the peer, the first of all, has reached, and
// the memory of each program: before its first call, and the most while it was called as fast as it answered.
func (l *lab) atHalf(all []rig.ComparedProgram, fastest [][]rig.Measurement, idle []float64) {
	half := int(result.MedianOf(fastest[0], rig.PerSecond) / 2)
	for i := range all {
		all[i].Wrk.Rate = half
	}
	runs := l.Compare(all, rounds, callConnections*callStreams, spell)
	t := result.NewTable(fmt.Sprintf("%d calls/s | µs, median | µs, p99 | MB idle | MB at the maximum", half))
	for i, c := range all {
		t.Add("%s | %.0f | %.0f | %.1f | %.1f", c.Name, result.MedianOf(runs[i], rig.P50),
			result.MedianOf(runs[i], rig.P99), idle[i], result.MedianOf(fastest[i], rig.ResidentMemory))
	}
	l.Note("Half of what the peer answers, sent at that rate, each time from sending a call to the end of its answer.")
	l.Table(t)
	l.AtMost("p99 of calls at half of the peer's rate, relative to the peer's", result.MedianOf(runs[1], rig.P99)/
		result.MedianOf(runs[0], rig.P99), .5)
	l.AtMost("resident memory at the maximum of calls in MB", result.MedianOf(fastest[1], rig.ResidentMemory), 40)
}

// perCPU returns decisions per second of CPU time.
func perCPU(s rig.Measurement) float64 { return 1e6 / s.CPU }

// figures prints a table, and the ratios of Weir with Redis to the peer.
func (l *lab) figures(what string, all []rig.ComparedProgram, runs [][]rig.Measurement) {
	t := result.NewTable(what +
		" | decisions/s | per second of CPU time | Redis: CPU µs per decision | commands per decision")
	for i, c := range all {
		asks := "2"
		if c.Own != "" {
			asks = fmt.Sprintf("%.2f", result.MedianOf(runs[i], rig.CommandsPerRequest))
		}
		if c.Redis == nil {
			asks = "–"
		}
		t.Add("%s | %.0f | %.0f | %.1f | %s", c.Name, result.MedianOf(runs[i], rig.PerSecond),
			result.MedianOf(runs[i], perCPU), result.MedianOf(runs[i], rig.RedisCPUPerRequest), asks)
	}
	l.Table(t)
	l.Note("Ratios of Weir to the peer: decisions per CPU time %s, CPU time of Redis %s",
		result.RatioOf(runs[1], runs[0], perCPU).Ratio(1), result.RatioOf(runs[1], runs[0], rig.RedisCPUPerRequest).Ratio(2))
}

// judge prints the figures. The goals apply to one key, which all callers share.
func (l *lab) judge(all []rig.ComparedProgram, runs [][]rig.Measurement, users int) {
	l.figures(fmt.Sprintf("%d keys", users), all, runs)
	if users > 1 {
		return
	}
	l.AtLeast("decisions per CPU time, relative to the peer's", result.MedianOf(runs[1], perCPU)/
		result.MedianOf(runs[0], perCPU), 5)
	l.AtMost("store commands per decision", result.MedianOf(runs[1], rig.CommandsPerRequest), .2)
	l.AtMost("CPU time of Redis, relative to that with the peer", result.MedianOf(runs[1], rig.RedisCPUPerRequest)/
		result.MedianOf(runs[0], rig.RedisCPUPerRequest), .3)
	l.AtLeast("simulated Redis, one loop: decisions per second", result.MedianOf(runs[2], rig.PerSecond), 80_000)
}
