package sidecar

import (
	"context"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"weir/bench/report"
	"weir/bench/rig"
	"weir/internal/freeport"
)

const (
	connections = 64
	spell       = 5 * time.Second // of each run of wrk
	rounds      = 3
	plenty      = "RATE_LIMIT_LIMIT=1000000000"
)

// speed compares sidecars with a limit in Redis, and /check with refusals of the data port.
func (l *lab) speed(ctx context.Context) error {
	fmt.Fprintf(l.Out, "### Speed\n\nwrk, %d turns of %v; all proxies have one event loop.\n\n", rounds, spell)
	if err := l.forwarding(ctx); err != nil {
		return err
	}
	if err := l.checks(ctx); err != nil {
		return err
	}
	return l.sizes()
}

// run loads the contestants in turn.
func (l *lab) run(ctx context.Context, all []rig.Contestant, connections int) ([][]rig.Sample, error) {
	return rig.Turns(rounds, len(all), func(i int) (rig.Sample, error) { return all[i].Sample(ctx, connections, spell) })
}

// forwarding compares the cost of asking a master with that of a limit in Redis.
func (l *lab) forwarding(ctx context.Context) error {
	target, err := l.target(ctx)
	if err != nil {
		return err
	}
	redis, err := l.Redis(ctx)
	if err != nil {
		return err
	}
	shared, sharedAddr, err := l.Kept(rig.StartProxy(ctx, []string{"TARGET_URL=http://" + target, "REDIS_HOST=" + redis.Addr, "GATE=off", "EVENT_LOOPS=1", plenty}))
	if err != nil {
		return err
	}
	m, err := l.master(ctx)
	if err != nil {
		return err
	}
	s, addr, err := l.sidecar(ctx, target, m.Addr, plenty)
	if err != nil {
		return err
	}
	wrk := func(addr string) rig.Wrk { return rig.Wrk{URL: "http://" + addr + "/api/test"} }
	all := []rig.Contestant{{Name: "target", Wrk: wrk(target)}, {Name: "limit in Redis", Wrk: wrk(sharedAddr), Process: shared}, {Name: "sidecar", Wrk: wrk(addr), Process: s}}
	many, err := l.run(ctx, all, connections)
	if err != nil {
		return err
	}
	one, err := l.run(ctx, all, 1)
	if err != nil {
		return err
	}
	t := report.NewTable(fmt.Sprintf(" | requests/s, %d connections | p50 µs, one connection | added µs | resident MB", connections))
	direct := report.MedianOf(one[0], rig.P50)
	for i, c := range all {
		p50 := report.MedianOf(one[i], rig.P50)
		t.Add("%s | %.0f | %.0f | %.0f | %.1f", c.Name, report.MedianOf(many[i], rig.PerSecond), p50, p50-direct, report.MedianOf(many[i], rig.Resident))
	}
	fmt.Fprintf(l.Out, "%s\nRatio of requests/s, sidecar to limit in Redis: %s\n\n", t, report.RatioOf(many[2], many[1], rig.PerSecond).Ratio(2))
	resident, err := rig.RSS(m.Pid())
	if err != nil {
		return err
	}
	l.AtLeast("sidecar: requests per second", report.MedianOf(many[2], rig.PerSecond), 40_000)
	l.AtMost("sidecar: added to p50 in µs", report.MedianOf(one[2], rig.P50)-direct, 150)
	l.AtMost("sidecar: resident MB under load", report.MedianOf(many[2], rig.Resident), 32)
	l.AtMost("master: resident MB after the load", float64(resident)/1e6, 32)
	return nil
}

// checks compares refusals of the decision port with those of the data port.
func (l *lab) checks(ctx context.Context) error {
	addr, err := freeport.Addr()
	if err != nil {
		return err
	}
	_, port, _ := strings.Cut(addr, ":")
	p, own, err := l.Kept(rig.StartProxy(ctx, []string{"TARGET_URL=http://" + addr, "DECISION_PORT=" + port, "GATE=off", "EVENT_LOOPS=1", "RATE_LIMIT_LIMIT=1", "RATE_LIMIT_WINDOW=3153600000"}))
	if err != nil {
		return err
	}
	if err := p.AwaitPort(ctx, addr); err != nil {
		return err
	}
	all := []rig.Contestant{{Name: "refused by the proxy", Wrk: rig.Wrk{URL: "http://" + own + "/api/test"}, Refuses: true}, {Name: "refused by /check", Wrk: rig.Wrk{URL: "http://" + addr + "/check/path/api/test"}, Refuses: true}}
	runs, err := l.run(ctx, all, connections)
	if err != nil {
		return err
	}
	t := report.NewTable(" | answers/s")
	for i, c := range all {
		t.Add("%s | %.0f", c.Name, report.MedianOf(runs[i], rig.PerSecond))
	}
	ratio := report.RatioOf(runs[1], runs[0], rig.PerSecond)
	fmt.Fprintf(l.Out, "%s\nRatio of /check to the proxy's own refusals: %s\n\n", t, ratio.Ratio(2))
	l.AtLeast("/check: answers per second, relative to the proxy's own refusals", report.MedianOf(runs[1], rig.PerSecond)/report.MedianOf(runs[0], rig.PerSecond), .9)
	return nil
}

// sizes checks the size of the program, which with certificate authorities is the whole image.
func (l *lab) sizes() error {
	bin, err := rig.Binary("proxy")
	if err != nil {
		return err
	}
	size, err := stripped(filepath.Clean(bin))
	if err != nil {
		return err
	}
	l.AtMost("the program in an image in MB", float64(size)/1e6, 25)
	return nil
}

// stripped returns the size of a program without symbols and debugging information, which the
// images do not contain.
func stripped(file string) (size int64, err error) {
	info, err := os.Stat(file)
	if err != nil {
		return 0, err
	}
	program, err := elf.Open(file)
	if err != nil {
		return 0, err
	}
	defer program.Close()
	size = info.Size()
	for _, s := range program.Sections {
		if strings.HasPrefix(s.Name, ".debug_") || s.Name == ".symtab" || s.Name == ".strtab" {
			size -= int64(s.FileSize)
		}
	}
	return size, nil
}
