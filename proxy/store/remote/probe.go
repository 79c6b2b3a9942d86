package remote

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/proxy/store"
)

const (
	// probePause is how long a master that is probed may be silent before it is asked again on a
	// new connection: what was sent while it was unreachable is lost.
	probePause = 200 * time.Millisecond
	// preference is how long to wait for masters listed before the one that has answered.
	preference = 50 * time.Millisecond
)

// Probe finds the first master in the list that decides. All are asked at once, so that a silent
// one does not delay finding the others.
func (b *backend) Probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	p := &probe{backend: b, heard: make(chan heard), best: len(b.cfg.URLs), done: make([]bool, len(b.cfg.URLs)),
		errs: make([]error, len(b.cfg.URLs))}
	defer p.asking.Wait()
	defer cancel()
	p.run(ctx)
	if p.best < len(b.cfg.URLs) {
		b.current.Store(int32(p.best))
		return nil
	}
	err := fmt.Errorf("ask %s: %w", strings.Join(b.cfg.URLs, ", "), ctx.Err())
	for _, one := range p.errs {
		if one != nil {
			err = one
		}
	}
	return err
}

// A probe is one search for a master.
//
// Owned by the goroutine of Probe. Other goroutines only send to heard.
type probe struct {
	*backend
	asking sync.WaitGroup
	heard  chan heard
	best   int     // index of the first master known to decide
	done   []bool  // whether a master has answered
	errs   []error // the last error of each master
}

// heard is the result of asking a master.
type heard struct {
	master int
	err    error
}

// run returns when the first master that decides is known, or ctx ends.
func (p *probe) run(ctx context.Context) {
	again := time.NewTicker(probePause)
	defer again.Stop()
	var settled <-chan time.Time
	for p.ask(ctx); slices.Contains(p.done[:p.best], false); { // a master before the best one may still answer
		select {
		case <-ctx.Done():
			return
		case <-settled:
			return
		case <-again.C:
			p.ask(ctx)
		case h := <-p.heard:
			p.done[h.master], p.errs[h.master] = true, h.err
			if h.err == nil {
				p.best = min(p.best, h.master)
				settled = time.After(min(preference, p.cfg.Timeout/4))
			}
		}
	}
}

// ask asks the masters before the best one.
func (p *probe) ask(ctx context.Context) {
	for i := range p.best {
		p.asking.Go(func() {
			h := heard{i, p.askOne(ctx, i, new(store.Batch))}
			select {
			case p.heard <- h:
			case <-ctx.Done():
			}
		})
	}
}
