// Package speed compares our programs with common alternatives, at the same time on the
// same machine. The result is a ratio: the two alternate, and the median of the pairs'
// ratios is reported with its spread.
package speed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"weir/bench/report"
	"weir/bench/result"
	"weir/bench/rig"
	"weir/internal/service"
)

// connections is how many clients there are unless said.
const connections = 64

// An effort is how thorough a comparison is.
type effort struct {
	rounds int           // runs of each side, in turns
	span   time.Duration // of a run
	parts  []func(l *lab) error
}

// efforts are the efforts by name.
func efforts() map[string]effort {
	usual := []func(l *lab) error{forwarding(1).play, forwarding(2).play, redis().play, latency(shared()...).play, refusals().play,
		latency(append(limiters(1), ours())...).play, target().play, (*lab).loadgen, (*lab).loadgenMost,
		(*lab).byConnections, byGate().play, (*lab).byRules, (*lab).byKeys, (*lab).byProxies, (*lab).memory, (*lab).start}
	return map[string]effort{
		"quick": {3, time.Second, []func(l *lab) error{forwarding(1).play, forwarding(2).play, refusals().play, (*lab).start}},
		"usual": {5, time.Second, usual},
		"all":   {7, 3 * time.Second, usual},
	}
}

// lab is what all comparisons share.
type lab struct {
	rig.Lab
	ctx context.Context
	effort

	served  *rig.Process // the target of the part; nil: there is none yet
	address string       // of it
}

func newLab(ctx context.Context, out io.Writer, e effort) (*lab, error) {
	dir, err := os.MkdirTemp("", "weir-speed-")
	return &lab{Lab: rig.Lab{Out: out, Dir: dir}, ctx: ctx, effort: e}, err
}

// end ends everything.
func (l *lab) end() {
	l.stop()
	_ = os.RemoveAll(l.Dir)
}

// Run compares and prints Markdown. args may name an effort: quick, usual, all.
// What is not installed is said and left out.
func Run(ctx context.Context, args []string, out io.Writer) (err error) {
	name := "usual"
	if len(args) > 0 {
		name = args[0]
	}
	e, known := efforts()[name]
	if !known || len(args) > 1 {
		return &service.ExitError{Status: 2, Err: fmt.Errorf("speed wants quick, usual, all or nothing; got %q", args)}
	}
	if err := missingTools("nginx", "wrk"); err != nil {
		return fmt.Errorf("%w: %w", err, result.ErrNotKept)
	}
	l, err := newLab(ctx, out, e)
	if err != nil {
		return err
	}
	defer l.end()
	fmt.Fprintf(out, "%d runs of %v of each side, in turns; medians, and in brackets the least and the most of the rounds' ratios; one loop against one worker or thread, and GATE=off, unless said\n", e.rounds, e.span)
	if err := missingTools("haproxy"); err != nil {
		fmt.Fprintf(out, "\nHAProxy is left out: %v\n", err)
	}
	for _, part := range e.parts {
		if err := part(l); err != nil {
			return err
		}
		l.stop()
	}
	return nil
}

// stop ends what a part has started, the last first.
func (l *lab) stop() {
	l.End()
	l.served = nil
}

func (l *lab) keep(p *rig.Process, addr string, err error) (*rig.Process, string, error) {
	if err == nil {
		l.Keep(func() {
			if err := p.Stop(); err != nil {
				fmt.Fprintln(l.Out, "\n"+err.Error())
			}
		})
	}
	return p, addr, err
}

// target is the address of the part's target: nginx, if none was started before.
func (l *lab) target() (addr string, err error) {
	if l.served == nil {
		l.served, l.address, err = l.keep(rig.Nginx(nginxStatic).Start(l.ctx, l.Dir, 1))
	}
	return l.address, err
}

// ownTarget makes our target program that of the part.
func (l *lab) ownTarget(env ...string) (addr string, err error) {
	l.served, l.address, err = l.keep(rig.StartTargetAt(l.ctx, env))
	return l.address, err
}

func (l *lab) heading(text string) { fmt.Fprintf(l.Out, "\n### %s\n\n", text) }

func (l *lab) table(columns ...string) { report.Head(l.Out, columns...) }

func (l *lab) row(cells ...string) { report.Row(l.Out, cells...) }

// start: how long our proxy takes until it answers.
func (l *lab) start() error {
	l.heading("Start to first answer")
	target, err := l.ownTarget()
	if err != nil {
		return err
	}
	var took []time.Duration
	for range l.rounds {
		began := time.Now()
		proxy, addr, err := rig.StartProxy(l.ctx, []string{"TARGET_URL=http://" + target})
		if err != nil {
			return err
		}
		_, err = rig.Scrape(l.ctx, addr)
		took = append(took, time.Since(began))
		if err = errors.Join(err, proxy.Stop()); err != nil {
			return err
		}
	}
	shown := func(v float64) time.Duration { return time.Duration(v).Round(100 * time.Microsecond) }
	spread := report.SpreadOf(took, func(d time.Duration) float64 { return float64(d) })
	l.table("", "median", "min … max")
	l.row("proxy", shown(spread.Median).String(), fmt.Sprintf("%v … %v", shown(spread.Least), shown(spread.Most)))
	return nil
}
