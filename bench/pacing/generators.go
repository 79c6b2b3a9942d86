package pacing

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"weir/bench/lab/result"
	"weir/bench/lab/rig"
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
	name    string
	shards  int // of ours, on one schedule
	process pace.Process
	// command is that of a peer, which has the name of the program that must be installed. Words in
	// braces are replaced.
	command []string
}

// own is a generator's own account of its run, and its schedule.
type own struct {
	start time.Time // zero if unknown
	due   []time.Duration
	lag   *record.Summary // start − due by its own account; nil if unknown
	says  record.Validity // its verdict, if any
}

// generators returns ours and all peers that can hold a rate. The rate of hey is per worker, that
// of httperf of connections.
func generators() []generator {
	return []generator{
		{name: "weir loadgen", shards: 1},
		{name: "weir loadgen, 2 shards", shards: 2},
		{name: "weir loadgen, poisson", shards: 1, process: pace.Poisson},
		{name: "weir loadgen, poisson, 2 shards", shards: 2, process: pace.Poisson},
		{name: "hey", command: []string{"hey", "-c", "{workers}", "-q", strconv.Itoa(heyRate), "-z", "{span}", "{url}"}},
		{name: "httperf", command: []string{"httperf", "--hog", "--server", "{host}", "--port", "{port}", "--uri", path,
			"--rate", "{rate}",
			"--num-conns", "{requests}", "--num-calls", "1", "--timeout", "5"}},
		{name: "wrk2", command: []string{"wrk2", "-t1", "-c64", "-R{rate}", "-d{seconds}s", "{url}"}},
		{name: "vegeta", command: []string{"sh", "-c",
			"exec vegeta attack -rate={rate} -duration={span} -output=/dev/null <<end\nGET {url}\nend"}},
		{name: "bombardier", command: []string{"bombardier", "-c", "64", "-r", "{rate}", "-d", "{span}", "{url}"}},
	}
}

// heyRate is the rate of one worker of hey.
const heyRate = 100

const path = "/api/test"

func url(addr string) string { return "http://" + addr + path }

// peer runs a third-party generator, which reports nothing about itself. If it is far behind its
// schedule it is killed.
func (g *generator) peer(l *rig.Lab, addr string, rate int, span time.Duration) own {
	host, port, _ := net.SplitHostPort(addr)
	fill := strings.NewReplacer("{host}", host, "{port}", port, "{url}", url(addr), "{rate}", strconv.Itoa(rate),
		"{workers}", strconv.Itoa(rate/heyRate),
		"{requests}", fmt.Sprint(int(span.Seconds()*float64(rate))), "{seconds}", fmt.Sprint(int(span.Seconds())),
		"{span}", span.String())
	p := rig.Must(rig.Start(g.name, nil, result.Map(g.command, fill.Replace)...))
	defer p.Kill()
	err := p.AwaitEnd(l.Ctx, span+lateMax)
	if !p.Ended() {
		err = l.Ctx.Err()
	}
	rig.Check(err)
	return own{}
}

// run sends requests to addr for a span and returns the generator's own account. Several of our
// generators have one schedule, which is computed from the configuration.
func (g *generator) run(l *rig.Lab, addr string, rate int, span time.Duration) own {
	if g.command != nil {
		return g.peer(l, addr, rate, span)
	}
	o := own{start: time.Now().Add(startAhead).Truncate(time.Millisecond), due: schedule(rate, span, g.process)}
	loads := make([]rig.Load, g.shards)
	for i := range loads {
		loads[i] = rig.Load{URL: url(addr), Rate: rate, For: span, Seed: seed, StartAt: o.start, Shard: i,
			Shards: g.shards, Arrivals: g.process.String()}
	}
	for _, r := range l.Load(loads...) { // the greatest lag and the worst verdict
		if o.lag == nil || r.Lag.P99 > o.lag.P99 {
			o.lag = &r.Lag
		}
		o.says = record.Worse(r.Verdict, o.says)
	}
	return o
}

func schedule(rate int, span time.Duration, process pace.Process) (due []time.Duration) {
	p := rig.Must(profile.NewConstant(float64(rate)))
	schedule := pace.New(pace.Config{Profile: p, Length: span, Arrivals: process, Seed: seed}).ForLoop(0, 1)
	for at, more := schedule.Due(); more; at, more = schedule.Due() {
		due = append(due, at)
		schedule.Take()
	}
	return due
}
