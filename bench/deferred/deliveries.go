package deferred

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"weir/bench/report"
	"weir/bench/rig"
	"weir/internal/freeport"
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
	singleRule   = "key: [\"header:X-Shop\"], limit: {algorithm: gcra, limit: 1, window: 1}, defer: {when: always, reserve: 0}"
	backlogRule  = "key: [\"header:X-Shop\"], limit: {algorithm: token, capacity: %d, fillRate: %d}, defer: {when: always, reserve: 0}"
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

// await waits until n orders have arrived.
func (w *warehouse) await(ctx context.Context, n int) error {
	for end := time.Now().Add(within); ; {
		w.mu.Lock()
		arrived := w.n
		w.mu.Unlock()
		if arrived >= n || ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d of %d orders arrived within %v", arrived, n, within)
		}
		_ = rig.Wait(ctx, 10*time.Millisecond)
	}
}

// of returns the arrival times of the n orders of a shop.
func (w *warehouse) of(shop string, n int) ([]time.Time, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at := w.at[shop]; len(at) != n {
		return nil, fmt.Errorf("shop %s sent %d orders, %d arrived", shop, n, len(at))
	}
	return w.at[shop], nil
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
	res, err := c.Do(req)
	if err != nil {
		return false, err
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK && res.StatusCode != http.StatusAccepted {
		return false, fmt.Errorf("an order was answered %s", res.Status)
	}
	return res.StatusCode == http.StatusAccepted, nil
}

// client starts a proxy with a rule in front of a warehouse, which ends with ctx.
func (l *lab) client(ctx context.Context, name, terms string) (*client, error) {
	at, err := freeport.Addr()
	if err != nil {
		return nil, err
	}
	c := &client{to: &warehouse{at: make(map[string][]time.Time), late: make(map[string][]string)}, Client: http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	go func() { _ = rig.Serve(ctx, at, c.to) }() // missing orders are detected
	env, err := l.settings(ctx, name, terms)
	if err != nil {
		return nil, err
	}
	c.proxy, c.addr, err = rig.StartProxy(ctx, append(env, "TARGET_URL=http://"+at))
	return c, err
}

// deliveries measures the delay and the rate of deliveries.
func (l *lab) deliveries(ctx context.Context) error {
	one, err := l.client(ctx, "singles", singleRule)
	if err != nil {
		return err
	}
	defer one.proxy.Kill()
	if err := l.starts(ctx, one); err != nil {
		return err
	}
	many, err := l.client(ctx, "backlog", fmt.Sprintf(backlogRule, rate, rate))
	if err != nil {
		return err
	}
	defer many.proxy.Kill()
	return l.workedOff(ctx, many)
}

// starts measures the delay of single orders after the instant at which they are permitted,
// which counts from when the previous order was sent.
func (l *lab) starts(ctx context.Context, c *client) error {
	sent, failed := make([]time.Time, singles), make([]error, singles)
	var all sync.WaitGroup
	for i := range singles {
		all.Go(func() {
			shop, key := fmt.Sprint(i), ""
			if i%2 == 1 { // orders wait in different ways with and without a key
				key = "second"
			}
			sent[i] = time.Now()
			_, err := c.send(ctx, shop, "")
			if err != nil {
				failed[i] = err
				return
			}
			stored, err := c.send(ctx, shop, key)
			if failed[i] = err; err == nil && !stored {
				failed[i] = fmt.Errorf("shop %d: the second order was not stored", i)
			}
		})
		if err := rig.Wait(ctx, singleGap); err != nil {
			return err
		}
	}
	all.Wait()
	if err := errors.Join(append(failed, c.to.await(ctx, 2*singles))...); err != nil {
		return err
	}
	late := make([]time.Duration, singles)
	for i := range late {
		at, err := c.to.of(fmt.Sprint(i), 2)
		if err != nil {
			return err
		}
		late[i] = at[1].Sub(sent[i]) - permitted
	}
	l.judgeStarts(late)
	return nil
}

// judgeStarts judges the delays of deliveries.
func (l *lab) judgeStarts(late []time.Duration) {
	slices.Sort(late)
	p50, p99 := report.Millis(report.Quantile(late, .5)), report.Millis(report.Quantile(late, .99))
	fmt.Fprintf(l.Out, "### Single orders\n\nDelay of %d orders at the target after the instant at which the limit permits them: %s.\n\n", len(late), quantiles(late))
	l.Never(late[0] < 0, "an order arrived %v before its limit permitted it", -late[0])
	l.AtMost(l.where()+"start: p50 in ms after the permitted instant", p50, startP50)
	l.AtMost(l.where()+"start: p99 in ms after the permitted instant", p99, startP99)
}

// workedOff measures the rate of a backlog.
func (l *lab) workedOff(ctx context.Context, c *client) error {
	failed := make([]error, backlogShops)
	var all sync.WaitGroup
	for i := range backlogShops {
		all.Go(func() {
			for n := 0; n < backlog && failed[i] == nil; n++ {
				_, failed[i] = c.send(ctx, fmt.Sprint(i), fmt.Sprint(n))
			}
		})
	}
	all.Wait()
	if err := errors.Join(append(failed, c.to.await(ctx, backlogShops*backlog))...); err != nil {
		return err
	}
	arrivals := make([][]time.Time, backlogShops)
	for i := range arrivals {
		at, err := c.to.of(fmt.Sprint(i), backlog)
		if err != nil {
			return err
		}
		arrivals[i] = at[rate:] // after the burst
	}
	l.judgeBacklog(arrivals)
	return nil
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
	fmt.Fprintf(l.Out, "### A backlog\n\n%d shops have %d orders each, of which %d/s may pass. They were worked off in %.1f s, at %.4f of the limit on average, and at %.4f for the shop with the largest deviation.\n\n",
		len(arrivals), backlog, rate, span, sum/float64(len(arrivals)), worst)
	l.AtMost(l.where()+"backlog: rate of the shop with the largest deviation, relative to the limit", worst, 1+rateOff)
	l.AtLeast(l.where()+"backlog: rate of the shop with the largest deviation, relative to the limit", worst, 1-rateOff)
}
