package deferred

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"weir/bench/lab/rig"
)

// In the demo shops send five times their limits, and then nothing. Three minutes are
// compressed to half a minute.
const (
	shopLoad    = 5 * rate // per second, of each shop
	shopSeconds = 5
)

// Demo shows deferred delivery with the queues named by args.
func Demo(of *rig.Lab, args []string) {
	l := &lab{Lab: of}
	l.RunExperiment(rig.Experiment{Name: "demo-deferred",
		Good: "every stored order was delivered once and in order, and live and deferred orders together kept the limit.",
		Parts: []rig.Part{l.with("file", rig.MemoryStore, l.demo), l.with("redis", rig.RedisStore, l.demo),
			l.with("postgres", rig.PostgresStore, l.demo)}}, args)
}

func (l *lab) demo() {
	c := l.client("demo", fmt.Sprintf(backlogRule, rate, rate))
	l.Note("Weir demo: %d shops send %d orders per second each, with a limit of %d each; refused orders are stored and "+
		"delivered later", backlogShops, shopLoad, rate)
	fmt.Fprintf(l, "\n  shops ──▶ proxy %s ──▶ warehouse\n\n", c.addr)
	s := l.sell(c)
	l.awaitQuiet(c)
	l.judgeSales(c.to, s)
}

// sales counts the orders that the shops have sent.
type sales struct {
	passed, stored, others int
	accepted               map[string][]string // stored orders, by shop
}

// sell has all shops send orders for shopSeconds.
func (l *lab) sell(c *client) *sales {
	s := &sales{accepted: make(map[string][]string)}
	var mu sync.Mutex
	var shops sync.WaitGroup
	over, cancel := context.WithTimeout(l.Ctx, shopSeconds*time.Second)
	defer shops.Wait()
	defer cancel()
	began := time.Now()
	for i := range backlogShops {
		shops.Go(func() {
			shop := strconv.Itoa(i)
			for n := 0; rig.Wait(over, time.Until(began.Add(time.Duration(n)*time.Second/shopLoad))) == nil; n++ {
				order := strconv.Itoa(n)
				stored, err := c.send(l.Ctx, shop, order)
				mu.Lock()
				switch {
				case err != nil:
					s.others++
				case stored:
					s.stored++
					s.accepted[shop] = append(s.accepted[shop], order)
				default:
					s.passed++
				}
				mu.Unlock()
			}
		})
	}
	for rig.Wait(over, time.Second) == nil {
		l.printQueue(c, "sending")
	}
	rig.Check(l.Ctx.Err())
	return s
}

// printQueue prints the state of the queue and returns how many orders wait.
func (l *lab) printQueue(c *client, what string) (waiting float64) {
	m := l.Scrape(c.addr)
	waiting = m.Sum("ratelimiter_deferred_waiting")
	fmt.Fprintf(l, "  %-12s waiting %5.0f   delivered %5.0f   oldest %4.1f s\n", what, waiting,
		m.Sum("ratelimiter_deferred_deliveries_total", `outcome="done"`), m.Sum("ratelimiter_deferred_oldest_seconds"))
	return waiting
}

// quietWithin bounds the delivery of all orders: several times what it takes.
const quietWithin = 3 * time.Minute

func (l *lab) awaitQuiet(c *client) {
	rig.Section("orders still wait", func() {
		rig.Await(l.Ctx, quietWithin, time.Second, func() bool { return l.printQueue(c, "quiet") == 0 })
	})
}

func (l *lab) judgeSales(w *warehouse, s *sales) {
	w.mu.Lock()
	defer w.mu.Unlock()
	late, unordered, most := 0, 0, 0
	for i := range backlogShops {
		shop := strconv.Itoa(i)
		late += len(w.late[shop])
		for k, order := range w.late[shop] {
			if k >= len(s.accepted[shop]) || s.accepted[shop][k] != order {
				unordered++
			}
		}
		most = max(most, busiest(w.at[shop]))
	}
	live := w.n - late
	l.Note("%d orders were admitted, %d stored, %d answered otherwise; the warehouse received %d live and %d deferred "+
		"ones", s.passed, s.stored, s.others, live, late)
	l.Note("maximum from one shop in any %v: %d; the limit allows %d", window, most, mostAllowed)
	l.Never(s.stored == 0, "nothing was stored")
	l.Never(s.others > 0, "%d orders were neither admitted nor stored", s.others)
	l.Never(late != s.stored, "%d orders were stored, %d delivered", s.stored, late)
	l.Never(live != s.passed, "%d orders were admitted, %d arrived", s.passed, live)
	l.Never(unordered > 0, "%d deferred orders arrived out of order", unordered)
	l.AtMost(l.where()+"orders of one shop in a window", float64(most), float64(mostAllowed))
}

// window is the span over which the limit is checked. It is long because orders that leave the
// proxy in time may arrive together.
const window = 5 * time.Second

// mostAllowed is what the limit admits in a window, plus a twentieth of a second's worth for
// delays on the way to the target.
const mostAllowed = rate + rate*int(window/time.Second) + rate/20

// busiest returns the maximum number of instants within any window.
func busiest(at []time.Time) (most int) {
	from := 0
	for i := range at {
		for at[i].Sub(at[from]) > window {
			from++
		}
		most = max(most, i-from+1)
	}
	return most
}
