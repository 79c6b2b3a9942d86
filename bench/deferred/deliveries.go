package deferred

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"weir/bench/lab/result"
	"weir/bench/lab/rig"
)

const (
	// Single orders: each shop sends two; the second is permitted after that time.
	singles   = 400 // shops
	singleGap = 40 * time.Millisecond
	permitted = time.Second
	startP50  = 10 // ms
	startP99  = 50
	// A backlog: rate is the rate and the burst of each shop.
	backlogShops = 10
	rate         = 20
	backlog      = rate * 23 // orders per shop
	rateOff      = .005
	within       = time.Minute // bounds the delivery of all orders
	singleRule   = "key: [\"header:X-Shop\"], limit: {algorithm: gcra, limit: 1, window: 1}, defer: {when: " +
		"always, reserve: 0}"
	backlogRule = "key: [\"header:X-Shop\"], limit: {algorithm: token, capacity: %d, fillRate: %d}, defer: {when: " +
		"always, reserve: 0}"
)

// A warehouse is a target that records when orders arrive.
//
// Safe for concurrent use: mu guards all.
type warehouse struct {
	mu   sync.Mutex
	at   map[string][]time.Time // by shop
	late map[string][]string    // deferred orders by shop, in order of arrival
	n    int
}

// ServeHTTP records an order.
func (w *warehouse) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	shop := r.Header.Get("X-Shop")
	w.at[shop] = append(w.at[shop], now)
	if r.Header.Get("X-Weir-Deferred") != "" {
		w.late[shop] = append(w.late[shop], r.Header.Get("Idempotency-Key"))
	}
	w.n++
}

func (w *warehouse) await(ctx context.Context, n int) {
	arrived := 0
	err := rig.Catch(func() {
		rig.Await(ctx, within, 10*time.Millisecond, func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			arrived = w.n
			return arrived >= n
		})
	})
	if err != nil {
		rig.Check(fmt.Errorf("%d of %d orders arrived: %w", arrived, n, err))
	}
}

func (w *warehouse) of(shop, n int) []time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.at[fmt.Sprint(shop)]
	if len(at) != n {
		rig.Check(fmt.Errorf("shop %d sent %d orders, %d arrived", shop, n, len(at)))
	}
	return at
}

// A client sends orders to a proxy before a warehouse.
type client struct {
	proxy *rig.Process
	addr  string // of the proxy
	to    *warehouse
	http.Client
}

// send sends an order and reports whether it was stored. key is the Idempotency-Key, or empty.
func (c *client) send(ctx context.Context, shop, key string) (stored bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.addr+"/orders", http.NoBody)
	if err != nil {
		return false, err
	}
	req.Header.Set("X-Shop", shop)
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	status, _, err := rig.Do(&c.Client, req)
	if err == nil && status != http.StatusOK && status != http.StatusAccepted {
		err = fmt.Errorf("an order was answered %d", status)
	}
	return status == http.StatusAccepted, err
}

// client starts a proxy with a rule in front of a warehouse, which end with the part.
func (l *lab) client(name, terms string) *client {
	c := &client{to: &warehouse{at: make(map[string][]time.Time), late: make(map[string][]string)},
		Client: http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	c.proxy, c.addr = l.Start("proxy", append(l.settings(name, terms), "TARGET_URL=http://"+l.Serve(c.to))...)
	return c
}

func (l *lab) deliveries() {
	one := l.client("singles", singleRule)
	l.starts(one)
	one.proxy.Kill()
	l.workedOff(l.client("backlog", fmt.Sprintf(backlogRule, rate, rate)))
}

// starts measures the delay of single orders after the instant at which they are permitted,
// which counts from when the previous order was sent.
func (l *lab) starts(c *client) {
	sent, began := make([]time.Time, singles), time.Now()
	rig.Parallel(singles, func(i int) {
		key := ""
		if i%2 == 1 { // orders wait in different ways with and without a key
			key = "second"
		}
		rig.Check(rig.Wait(l.Ctx, time.Until(began.Add(time.Duration(i)*singleGap))))
		sent[i] = time.Now()
		rig.Must(c.send(l.Ctx, fmt.Sprint(i), ""))
		if !rig.Must(c.send(l.Ctx, fmt.Sprint(i), key)) {
			rig.Check(fmt.Errorf("shop %d: the second order was not stored", i))
		}
	})
	c.to.await(l.Ctx, 2*singles)
	late := make(result.Latencies, singles)
	for i := range late {
		late[i] = c.to.of(i, 2)[1].Sub(sent[i]) - permitted
	}
	l.judgeStarts(late)
}

func (l *lab) judgeStarts(late result.Latencies) {
	slices.Sort(late)
	l.Heading("Single orders")
	l.Note("Delay of %d orders at the target after the instant at which the limit permits them: %v.", len(late), late)
	l.Never(late[0] < 0, "an order arrived %v before its limit permitted it", -late[0])
	l.AtMost(l.where()+"start: p50 in ms after the permitted instant", late.Millis(.5), startP50)
	l.AtMost(l.where()+"start: p99 in ms after the permitted instant", late.Millis(.99), startP99)
}

func (l *lab) workedOff(c *client) {
	rig.Parallel(backlogShops, func(i int) {
		for n := range backlog {
			rig.Must(c.send(l.Ctx, fmt.Sprint(i), fmt.Sprint(n)))
		}
	})
	c.to.await(l.Ctx, backlogShops*backlog)
	arrivals := make([][]time.Time, backlogShops)
	for i := range arrivals {
		arrivals[i] = c.to.of(i, backlog)[rate:] // after the burst
	}
	l.judgeBacklog(arrivals)
}

// judgeBacklog judges the rate at which the orders of each shop arrived.
func (l *lab) judgeBacklog(arrivals [][]time.Time) {
	sum, worst, span := 0.0, 1.0, math.Inf(1)
	for _, at := range arrivals {
		took := at[len(at)-1].Sub(at[0]).Seconds()
		got := float64(len(at)-1) / took / rate
		if span = min(span, took); math.Abs(got-1) > math.Abs(worst-1) {
			worst = got
		}
		sum += got
	}
	l.Heading("A backlog")
	l.Note("%d shops have %d orders each, of which %d/s may pass. They were worked off in %.1f s, at %.4f of the limit "+
		"on average, and at %.4f for the shop with the largest deviation.",
		len(arrivals), backlog, rate, span, sum/float64(len(arrivals)), worst)
	l.AtMost(l.where()+"backlog: rate of the shop with the largest deviation, relative to the limit", worst, 1+rateOff)
	l.AtLeast(l.where()+"backlog: rate of the shop with the largest deviation, relative to the limit", worst, 1-rateOff)
}
