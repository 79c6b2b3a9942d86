package gate

const (
	// knownStep is how much of a window counts towards what is known, and knownMax
	// bounds that. The first window counts little: the target may have been overrun by
	// proxies that started at the same time.
	knownStep, knownMax = 50, 600
)

// calm is how answer times are spread when nothing waits.
type calm struct {
	shape
	known float64 // answers that say so; 0: nothing is known
	few   float64 // in flight when that was learned
}

// learn learns how answer times are spread when nothing waits: from where the fewest
// were in flight, or clearly fewer than can be at work.
func (g *Gate) learn(r *reading) {
	c := &g.calm
	fewer := r.mean <= max(1.1*c.few, .7*g.atWork)
	if c.known > 0 && !fewer && (c.known >= knownStep || r.waiting >= r.noise) {
		return
	}
	n := float64(g.window.goods)
	if r.mean < .7*c.few {
		c.known = 0
	}
	share := n / (c.known + n)
	c.known = min(c.known+min(n, knownStep), knownMax)
	c.few += (r.mean - c.few) * share
	c.toward(&r.shape, share)
	g.slower += (1 - g.slower) * share
	g.slower = min(g.slower, r.mid/c.mid)
}
