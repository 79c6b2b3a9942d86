package gate

const (
	// knownStep is how many answers of a window count towards baseline.known, and knownMax
	// bounds their sum. So the first window counts little: proxies that started at the same
	// time may have overrun the target.
	knownStep, knownMax = 50, 600
)

// baseline is the distribution of answer times when nothing waits.
type baseline struct {
	shape
	known float64 // answers it is based on; 0: it is not known
	few   float64 // requests in flight when it was learned
}

// learn updates the baseline if no window had fewer in flight, or if clearly fewer were in flight
// than can be worked on.
func (g *Gate) learn(r *reading) {
	c := &g.baseline
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
