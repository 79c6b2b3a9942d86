package pacing

import (
	"fmt"
	"net"
	"strconv"
	"time"

	"weir/bench/rig"
	"weir/loadgen/pace"
	"weir/loadgen/profile"
	"weir/loadgen/record"
)

const (
	startAhead = 1500 * time.Millisecond // until our generators start, so that all of them are ready
	lateMax    = 5 * time.Second         // how much longer than its load a peer may run
	seed       = 20260119
)

// A generator makes load at a constant rate.
type generator struct {
	name string
	tool string // the program that must be installed; empty for ours
	// run sends requests to addr for a span and returns the generator's own account.
	run func(l *rig.Lab, addr string, rate int, span time.Duration) own
}

// own is a generator's own account of its run, and its schedule.
type own struct {
	start time.Time // zero if unknown
	due   []time.Duration
	lag   *record.Spread // start − due by its own account; nil if unknown
	says  record.Verdict // its verdict, if any
}

// generators returns ours and all peers that can hold a rate.
func generators() []generator {
	return []generator{
		{name: "weir loadgen", run: ours(1, pace.Uniform)},
		{name: "weir loadgen, 2 shards", run: ours(2, pace.Uniform)},
		{name: "weir loadgen, poisson", run: ours(1, pace.Poisson)},
		{name: "weir loadgen, poisson, 2 shards", run: ours(2, pace.Poisson)},
		{"hey", "hey", peer(func(addr string, rate int, span time.Duration) []string {
			workers := rate / heyRate // its rate is per worker
			return []string{"hey", "-c", strconv.Itoa(workers), "-q", strconv.Itoa(heyRate), "-z", span.String(), url(addr)}
		})},
		{"httperf", "httperf", peer(func(addr string, rate int, span time.Duration) []string {
			host, port, _ := net.SplitHostPort(addr)
			n := int(span.Seconds() * float64(rate)) // its rate is of connections
			return []string{"httperf", "--hog", "--server", host, "--port", port, "--uri", path, "--rate", strconv.Itoa(rate),
				"--num-conns", strconv.Itoa(n), "--num-calls", "1", "--timeout", "5"}
		})},
		{"wrk2", "wrk2", peer(func(addr string, rate int, span time.Duration) []string {
			return []string{"wrk2", "-t1", "-c64", "-R" + strconv.Itoa(rate), fmt.Sprintf("-d%ds", int(span.Seconds())), url(addr)}
		})},
		{"vegeta", "vegeta", peer(func(addr string, rate int, span time.Duration) []string {
			return []string{"sh", "-c", "exec vegeta attack -rate=\"$1\" -duration=\"$2\" -output=/dev/null <<end\nGET $0\nend",
				url(addr), strconv.Itoa(rate), span.String()}
		})},
		{"bombardier", "bombardier", peer(func(addr string, rate int, span time.Duration) []string {
			return []string{"bombardier", "-c", "64", "-r", strconv.Itoa(rate), "-d", span.String(), url(addr)}
		})},
	}
}

// heyRate is the rate of one worker of hey.
const heyRate = 100

const path = "/api/test"

func url(addr string) string { return "http://" + addr + path }

// peer returns a function that runs a third-party generator, which reports nothing about itself.
// If it is far behind its schedule it is killed.
func peer(command func(addr string, rate int, span time.Duration) []string) func(*rig.Lab, string, int, time.Duration) own {
	return func(l *rig.Lab, addr string, rate int, span time.Duration) own {
		words := command(addr, rate, span)
		p := rig.Must(rig.Start(words[0], nil, words...))
		defer p.Kill()
		err := p.AwaitEnd(l.Ctx, span+lateMax)
		if ended, _ := p.Ended(); !ended {
			err = l.Ctx.Err()
		}
		rig.Check(err)
		return own{}
	}
}

// ours returns a function that runs several of our generators on one schedule, which is
// computed from the configuration.
func ours(shards int, process pace.Process) func(*rig.Lab, string, int, time.Duration) own {
	return func(l *rig.Lab, addr string, rate int, span time.Duration) own {
		o := own{start: time.Now().Add(startAhead).Truncate(time.Millisecond), due: schedule(rate, span, process)}
		loads := make([]rig.Load, shards)
		for i := range loads {
			loads[i] = rig.Load{URL: url(addr), Rate: rate, For: span, Seed: seed, StartAt: o.start, Shard: i, Shards: shards, Arrivals: process.String()}
		}
		for _, r := range l.Load(loads...) { // the greatest lag and the worst verdict
			if o.lag == nil || r.Lag.P99 > o.lag.P99 {
				o.lag = &r.Lag
			}
			o.says = record.Worse(r.Verdict, o.says)
		}
		return o
	}
}

func schedule(rate int, span time.Duration, process pace.Process) (due []time.Duration) {
	p := rig.Must(profile.NewConstant(float64(rate)))
	lane := pace.New(pace.Config{Profile: p, Length: span, Arrivals: process, Seed: seed}).Lane(0, 1)
	for at, more := lane.Due(); more; at, more = lane.Due() {
		due = append(due, at)
		lane.Take()
	}
	return due
}
