package remote

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
)

const (
	// probePause is how long masters that are probed may be silent until they are asked again,
	// over other connections: what was sent while one was unreachable is lost.
	probePause = 200 * time.Millisecond
	// preference is how long the masters before the one that has answered are waited for.
	preference = 50 * time.Millisecond
)

// Probe finds the first master that decides. All are asked at once, as one that is silent
// must not keep the others from being found.
func (b *backend) Probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	p := &probe{backend: b, heard: make(chan heard), best: len(b.cfg.URLs), done: make([]bool, len(b.cfg.URLs)), errs: make([]error, len(b.cfg.URLs))}
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
// Owned by the goroutine of Probe; others send to heard.
type probe struct {
	*backend
	asking sync.WaitGroup
	heard  chan heard
	best   int     // the first master that decides, as far as is known
	done   []bool  // masters that have answered
	errs   []error // what they have answered last
}

// heard is what came of asking a master.
type heard struct {
	master int
	err    error
}

// run returns when the first master that decides is known, or ctx ends.
func (p *probe) run(ctx context.Context) {
	again := time.NewTicker(probePause)
	defer again.Stop()
	var settled <-chan time.Time
	for p.ask(ctx); p.open(); {
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

// open reports whether a master may answer that would be better.
func (p *probe) open() bool {
	for _, done := range p.done[:p.best] {
		if !done {
			return true
		}
	}
	return false
}

// ask asks the masters that would be better.
func (p *probe) ask(ctx context.Context) {
	until, _ := ctx.Deadline()
	for i := range p.best {
		p.asking.Go(func() {
			h := heard{i, p.askOne(ctx, i, &question{connect: until, until: until})}
			select {
			case p.heard <- h:
			case <-ctx.Done():
			}
		})
	}
}
