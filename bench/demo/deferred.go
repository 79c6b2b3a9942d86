package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"weir/bench/report"
	"weir/bench/rig"
)

// What the demo of deferred delivery plays: shops send five times what their limits let
// through, and then nothing. Three minutes are compressed to half of one.
const (
	shops       = 10
	shopRate    = 20 // per second, of each shop; also its burst
	shopLoad    = 5 * shopRate
	shopSeconds = 5
)

const deferRules = `rules:
- {id: orders, match: {methods: [POST], path: /orders}, key: ["header:X-Shop"], limit: {algorithm: token, capacity: %d, fillRate: %d}, defer: {reserve: 0, perKey: 10000}}
`

// Deferred plays the demo of requests that are delivered later.
func Deferred(ctx context.Context, out io.Writer) (err error) {
	folder, err := os.MkdirTemp("", "weir-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	rules := filepath.Join(folder, "rules.yaml")
	if err := os.WriteFile(rules, fmt.Appendf(nil, deferRules, shopRate, shopRate), 0o600); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	w := &warehouse{live: make(map[string]int), late: make(map[string][]int), at: make(map[string][]time.Time)}
	server := &http.Server{Handler: w, ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	defer func() {
		_ = server.Close()
		<-served
	}()
	p, addr, err := rig.StartProxy(ctx, []string{"TARGET_URL=http://" + l.Addr().String(), "RULES_FILE=" + rules, "RATE_LIMIT_LIMIT=1000000",
		"DEFER_URL=file:" + filepath.Join(folder, "queue"), "DEFER_RATE=10000"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	fmt.Fprintf(out, "Weir demo: %d shops send %d orders a second each, their limits are %d; what is refused is stored and delivered later\n\n  shops ──▶ proxy %s ──▶ warehouse %s\n\n",
		shops, shopLoad, shopRate, addr, l.Addr())
	sent, err := sendOrders(ctx, addr, out)
	if err != nil {
		return err
	}
	if err := awaitQuiet(ctx, addr, out); err != nil {
		return err
	}
	return w.judge(out, sent)
}

// A warehouse is a target that keeps which orders it got, and when.
//
// Safe for concurrent use: mu guards all.
type warehouse struct {
	mu   sync.Mutex
	live map[string]int         // by shop
	late map[string][]int       // numbers of deferred orders in the order in which they came, by shop
	at   map[string][]time.Time // of all orders, by shop
}

// ServeHTTP takes an order.
func (h *warehouse) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var n int
	if _, err := fmt.Fscan(r.Body, &n); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	shop := r.Header.Get("X-Shop")
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at[shop] = append(h.at[shop], time.Now())
	if r.Header.Get("X-Weir-Deferred") != "" {
		h.late[shop] = append(h.late[shop], n)
	} else {
		h.live[shop]++
	}
	w.WriteHeader(http.StatusCreated)
}

// sales are what the shops have sent.
type sales struct {
	passed, stored, others int
	promised               map[string][]int // numbers of stored orders, by shop
}

// sendOrders has all shops send for a while.
func sendOrders(whole context.Context, addr string, out io.Writer) (*sales, error) {
	s := &sales{promised: make(map[string][]int)}
	var mu sync.Mutex
	var group sync.WaitGroup
	ctx, cancel := context.WithTimeout(whole, shopSeconds*time.Second)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: shops}, Timeout: 10 * time.Second}
	for i := range shops {
		shop := fmt.Sprint("shop", i)
		group.Go(func() {
			tick := time.NewTicker(time.Second / shopLoad)
			defer tick.Stop()
			for n := 0; ; n++ {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				status := sendOrder(client, addr, shop, n)
				mu.Lock()
				switch status {
				case http.StatusCreated:
					s.passed++
				case http.StatusAccepted:
					s.stored++
					s.promised[shop] = append(s.promised[shop], n)
				default:
					s.others++
				}
				mu.Unlock()
			}
		})
	}
	watch := time.NewTicker(time.Second)
	defer watch.Stop()
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	for {
		select {
		case <-done:
			return s, whole.Err()
		case <-watch.C:
			if _, err := tellQueue(whole, addr, out, "orders come"); err != nil {
				return nil, err
			}
		}
	}
}

// sendOrder sends one order; 0: there is no answer.
func sendOrder(client *http.Client, addr, shop string, n int) int {
	req, err := http.NewRequest(http.MethodPost, "http://"+addr+"/orders", strings.NewReader(fmt.Sprint(n)))
	if err != nil {
		return 0
	}
	req.Header.Set("X-Shop", shop)
	req.Header.Set("Prefer", "respond-async")
	req.Header.Set("Idempotency-Key", fmt.Sprint(n))
	res, err := client.Do(req)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return res.StatusCode
}

// tellQueue prints what the queue is like, and returns how many wait.
func tellQueue(ctx context.Context, addr string, out io.Writer, what string) (waiting float64, err error) {
	m, err := rig.Scrape(ctx, addr)
	if err != nil {
		return 0, err
	}
	waiting = m.Sum("ratelimiter_deferred_waiting")
	fmt.Fprintf(out, "  %-12s waiting %5.0f   delivered %5.0f   oldest %4.1f s\n", what, waiting,
		m.Sum("ratelimiter_deferred_deliveries_total", `outcome="done"`), m.Sum("ratelimiter_deferred_oldest_seconds"))
	return waiting, nil
}

// quietWithin bounds how long all is to be delivered in: several times what it takes.
const quietWithin = 3 * time.Minute

// awaitQuiet waits until nothing waits any more.
func awaitQuiet(ctx context.Context, addr string, out io.Writer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, quietWithin, fmt.Errorf("orders still wait after %v", quietWithin))
	defer cancel()
	for {
		waiting, err := tellQueue(ctx, addr, out, "quiet")
		if err != nil || waiting == 0 {
			return err
		}
		if err := rig.Wait(ctx, time.Second); err != nil {
			return context.Cause(ctx)
		}
	}
}

// judge holds what came against what was sent.
func (h *warehouse) judge(out io.Writer, s *sales) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var e report.Expectations
	late, live, unordered, most := 0, 0, 0, 0
	for i := range shops {
		shop := fmt.Sprint("shop", i)
		late, live = late+len(h.late[shop]), live+h.live[shop]
		for k, n := range h.late[shop] {
			if k >= len(s.promised[shop]) || s.promised[shop][k] != n {
				unordered++
			}
		}
		most = max(most, busiest(h.at[shop]))
	}
	fmt.Fprintf(out, "\n%d orders passed, %d were stored, %d had another answer; the warehouse got %d live and %d deferred ones\n", s.passed, s.stored, s.others, live, late)
	fmt.Fprintf(out, "the most that it got of one shop in any %v: %d; the limit allows %d\n\n", window, most, mostAllowed)
	e.Never(s.stored == 0, "nothing was stored")
	e.Never(s.others > 0, "%d orders were neither admitted nor stored", s.others)
	e.Never(late != s.stored, "%d orders were stored, %d delivered", s.stored, late)
	e.Never(live != s.passed, "%d orders passed, %d came", s.passed, live)
	e.Never(unordered > 0, "%d deferred orders came at another place than they were accepted at", unordered)
	e.AtMost("orders of one shop in a window", float64(most), float64(mostAllowed))
	return e.Conclude(out, "every stored order was delivered once, in order, and live and deferred ones together kept the limit.", nil)
}

// window is over which the limit is checked: long, as what leaves the proxy in time may come in
// a crowd.
const window = 5 * time.Second

// mostAllowed is what the limit lets through in a window, and a twentieth of a second's worth
// for the way to the target.
const mostAllowed = shopRate + shopRate*int(window/time.Second) + shopRate/20

// busiest is the most instants within any window.
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
