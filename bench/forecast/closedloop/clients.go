package closedloop

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// How clients retry.
const (
	triesMax   = 3 // after the first
	backoffMin = 1.0
	backoffMax = 4.0
	// aheadMax is how many seconds ahead a client may plan: the timeout, the
	// longest wait, and the rest of the second it is in.
	aheadMax = 8
)

// An arrival is a request at the limiter.
type arrival struct {
	at    float64 // seconds since the start
	tries int8    // that were in vain before it
}

// A clients is the clients. It returns the requests of one second after another. They are
// known when the second begins, since no client retries within a second.
//
// Owned by its run.
type clients struct {
	demand  *Demand
	retry   float64 // probability of a retry
	arrive  *rand.Rand
	client  *rand.Rand
	planned [aheadMax][]arrival // retries, by second
	all     []arrival
}

func newCrowd(s *Scenario) *clients {
	return &clients{demand: &s.Demand, retry: s.Retry, arrive: newRand(s.Seed, streamArrivals),
		client: newRand(s.Seed, streamClients)}
}

// second returns the arrivals in [k, k+1), in order, and how many are first requests. The
// slice is valid until the next call.
func (c *clients) second(k int) (all []arrival, first int) {
	c.all = c.all[:0]
	if step := c.demand.Step; step < time.Second {
		parts := int(time.Second / step)
		width := 1 / float64(parts)
		for i := range parts {
			at := float64(k) + float64(i)*width
			c.draw(at, width, c.demand.At(at+width/2))
		}
	} else {
		c.draw(float64(k), 1, c.demand.At(float64(k)+0.5))
	}
	first = len(c.all)
	again := &c.planned[k%aheadMax]
	c.all = append(c.all, *again...)
	slices.SortStableFunc(c.all, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	*again = (*again)[:0]
	return c.all, first
}

// draw appends the first requests of [from, from+width), uniformly distributed, in order.
func (c *clients) draw(from, width, rate float64) {
	n := count(c.arrive, rate*width, c.demand.Dispersion)
	begin, sum := len(c.all), 0.0
	for range n {
		sum += c.arrive.ExpFloat64()
		c.all = append(c.all, arrival{at: sum})
	}
	if n == 0 {
		return
	}
	scale := width / (sum + c.arrive.ExpFloat64())
	for i := begin; i < len(c.all); i++ {
		c.all[i].at = from + c.all[i].at*scale
	}
}

// failed plans a retry of a, which was refused or whose client gave up at now.
func (c *clients) failed(now float64, a arrival) {
	if c.retry == 0 || a.tries >= triesMax || c.client.Float64() >= c.retry {
		return
	}
	at := now + backoffMin + (backoffMax-backoffMin)*c.client.Float64()
	c.planned[int(at)%aheadMax] = append(c.planned[int(at)%aheadMax], arrival{at, a.tries + 1})
}
