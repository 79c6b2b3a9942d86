// Package demo shows what Weir does in half a minute: a load below and far above a limit, with
// each algorithm, with HTTP/2, and with measurements.
package demo

import (
	"fmt"
	"strings"
	"time"

	"weir/bench/lab/result"
	"weir/bench/lab/rig"
)

// limit is the demo's limit in requests per second, which is also the token
// bucket's capacity.
const limit = 1000

// The demo's target has 4 workers that take 1 ms each. A fixed window can admit the requests of
// a second at once, which is faster than that.
const (
	targetWorkers = 4
	targetDelay   = time.Millisecond
)

// tries bounds how often a phase is played if the load generator could not keep its schedule,
// because the figures then say nothing about the proxy.
const tries = 4

// phases returns the phases in order; the algorithm is switched between them.
func phases() (ps []phase) {
	for _, a := range []string{"fixed", "sliding", "token"} {
		ps = append(ps, phase{protocol: "http1", algorithm: a, rate: 500, seconds: 3},
			phase{protocol: "http1", algorithm: a, rate: 5000, seconds: 5})
	}
	return append(ps, phase{protocol: "h2c", algorithm: "fixed", rate: 5000, seconds: 5})
}

// Run plays the demo. It misses an expectation if a figure is wrong.
func Run(l *rig.Lab) {
	all := phases()
	playAll(l, all)
	show(l, all)
}

func playAll(l *rig.Lab, all []phase) {
	fmt.Fprintf(l, "Weir demo: a limit of %d requests per second in front of a target that can serve %.0f, GATE=off\n\n",
		limit, targetWorkers/targetDelay.Seconds())
	r := l.Rig(rig.Topology{
		Target: []string{fmt.Sprintf("TARGET_WORKERS=%d", targetWorkers), "TARGET_DELAY=" + targetDelay.String()},
		// Windows admit bursts that overload the target, and the gate would shed part of them.
		// The figures should show the limit alone.
		Proxy: []string{"GATE=off", "HTTP2=all", "RATE_LIMIT_ALGORITHM=fixed", fmt.Sprintf("RATE_LIMIT_LIMIT=%d", limit),
			"RATE_LIMIT_WINDOW=1",
			fmt.Sprintf("RATE_LIMIT_CAPACITY=%d", limit), fmt.Sprintf("RATE_LIMIT_FILL_RATE=%d", limit)},
	})
	fmt.Fprintf(l, "  loadgen ──▶ proxy %s ──▶ target %s\n\n", r.ProxyAddrs[0], r.TargetAddr)
	algorithm := "fixed"
	for i := range all {
		p := &all[i]
		if p.algorithm != algorithm {
			algorithm = p.algorithm
			rig.Section("switch the algorithm", func() {
				rig.Must(rig.Post(l.Ctx, "http://"+r.ProxyAddrs[0]+"/config/algorithm", fmt.Sprintf(`{"algorithm":%q}`, algorithm)))
			})
			fmt.Fprintf(l, "  POST /config/algorithm {\"algorithm\":%q}: switched\n", algorithm)
		}
		fmt.Fprintf(l, "▶ %d of %d: %s, %d requests/s by %s for %d s\n", i+1, len(all), p.algorithm, p.rate, p.protocol,
			p.seconds)
		p.play(l, r)
	}
}

func (p *phase) play(l *rig.Lab, r *rig.Rig) {
	for try := 1; ; try++ {
		before := l.Scrape(r.TargetAddr)
		p.load = l.Load(rig.Load{URL: r.URL(0), Protocol: p.protocol, Rate: p.rate,
			For: time.Duration(p.seconds) * time.Second, Progress: l})[0]
		after := l.Scrape(r.TargetAddr)
		grown := func(name string) float64 { return after.Since(before, name, `uri="/api/test"`, `status="200"`) }
		served := grown("http_server_requests_seconds_count")
		p.served, p.busyTime = uint64(served), grown("http_server_requests_seconds_sum")/max(served, 1)
		if p.load.Verdict != "INVALID" || try == tries {
			return
		}
		fmt.Fprintf(l, "  this machine was too busy for the schedule (%s); repeating\n",
			strings.Join(p.load.Reasons, "; "))
		l.Wait(time.Now().Add(refill))
	}
}

// refill is a little more than the time an empty token bucket takes to fill, because every phase
// starts with a full one.
const refill = 1500 * time.Millisecond

// problem describes what is wrong with a phase; empty if nothing is.
func (p *phase) problem() string {
	l, expected := p.load, p.admitted(limit)
	switch {
	case l.Errors > 0:
		return fmt.Sprintf("%d requests failed: %v", l.Errors, l.ErrorsByReason)
	case l.Attempted() != l.Success+l.RateLimited:
		return fmt.Sprintf("%d sent, but %d answered", l.Attempted(), l.Success+l.RateLimited)
	case l.Success != p.served:
		return fmt.Sprintf("%d admitted, but the target served %d", l.Success, p.served)
	case !expected.holds(l.Success):
		return fmt.Sprintf("%d admitted, expected %v", l.Success, expected)
	}
	return ""
}

func show(lab *rig.Lab, all []phase) {
	table := result.NewTable(
		"algorithm|protocol|load/s|sent|admitted|refused|refused %|expected %|p50 ms|p95 ms|p99 ms|429 p99|target saw|its ms||")
	for i := range all {
		p := &all[i]
		l, lat := p.load, p.load.LatencySuccess
		refusals, mark := "–", "✓"
		if l.RateLimited > 0 {
			refusals = fmt.Sprintf("%.1f", 1e3*l.LatencyRateLimited.P99)
		}
		if p.problem() != "" {
			mark = "✗"
		}
		table.Add("%s|%s|%d|%d|%d|%d|%.1f|%s|%.1f|%.1f|%.1f|%s|%d|%.1f|%s|%s", p.algorithm, p.protocol, p.rate,
			l.Sent, l.Success, l.RateLimited, share(l.RateLimited, l.Sent), p.expectedShare(),
			1e3*lat.P50, 1e3*lat.P95, 1e3*lat.P99, refusals, p.served, 1e3*p.busyTime, p.bar(), mark)
	}
	fmt.Fprintf(lab, "\nWhat the load generator sent, what the proxy admitted, and what the target received\n\n%s%s",
		table.Text(), explanation)
	defer fmt.Fprint(lab, "\nThis was the limit alone, with GATE=off. `make demo-gate` shows the gate: "+
		"a target that loses half its speed, without it and with it.\n")
	judge(lab, all)
}

const explanation = `
Times count from when a request was due, not from when it was sent. "expected" is the share that the limit
must refuse. Windows are aligned to the clock, so the first and the last second of a phase may each admit a
whole window. A token bucket starts full, so it admits its capacity in addition. Arrivals are not exact,
hence ±1 %. "its ms" is the mean time in the target, which depends on the shape of the traffic: a fixed
window admits the requests of a second at once, the other two spread them out after their first burst.
`

// judge concludes. Problems prove nothing if they occur only with loads that were not as planned.
func judge(l *rig.Lab, all []phase) {
	var wrong []*rig.LoadResult
	for i := range all {
		p := &all[i]
		problem := p.problem()
		l.Never(problem != "", "%s at %d/s by %s: %s (the generator's verdict on itself: %s)", p.algorithm, p.rate, p.protocol,
			problem, p.load.Verdict)
		if problem != "" {
			wrong = append(wrong, p.load)
		}
	}
	l.Conclude("nothing was refused below the limit, nothing above it was admitted, no request was lost.",
		rig.InconclusiveFailures(wrong))
}

func (p *phase) bar() string {
	const width = 20
	full := int(share(p.load.Success, p.load.Sent)*width/100 + 0.5)
	return strings.Repeat("█", full) + strings.Repeat("░", width-full)
}

// expectedShare formats the expected share of refusals, in percent.
func (p *phase) expectedShare() string {
	sent, expected := p.load.Sent, p.admitted(limit)
	least, most := share(sent-min(sent, expected.most), sent), share(sent-min(sent, expected.least), sent)
	if least == most {
		return fmt.Sprintf("%.1f", least)
	}
	return fmt.Sprintf("%.1f…%.1f", least, most)
}

func share(part, whole uint64) float64 { return 100 * float64(part) / float64(max(whole, 1)) }
