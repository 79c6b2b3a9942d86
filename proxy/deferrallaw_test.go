package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
	"weir/proxy/store/postgres/postgrestest"
	"weir/proxy/store/redis/redistest"
)

// lawLimits are limits of 40 orders a second, as rules have them and as they are.
var lawLimits = []struct {
	text string
	limit.Config
}{
	{"algorithm: token, capacity: 4, fillRate: 40", limit.Config{Algorithm: limit.Token, Capacity: 4, FillRate: 40}},
	{"algorithm: gcra, limit: 40, window: 1, burst: 4",
		limit.Config{Algorithm: limit.GCRA, Limit: 40, Window: 1, Burst: 4}},
	{"algorithm: sliding_log, limit: 10, window: 0.25",
		limit.Config{Algorithm: limit.SlidingLog, Limit: 10, Window: 0.25}},
}

// An audited is a proxy whose admissions can be told: by its access log, and by what its target got.
type audited struct {
	*running
	shop *shop
	log  string
}

func auditing(t *testing.T, limit, terms string, env ...string) *audited {
	a := &audited{shop: newShop(t), log: filepath.Join(t.TempDir(), "access")}
	a.running = launch(t, append(append(deferring(t, a.shop, limit, terms), "ACCESS_LOG", a.log), env...))
	return a
}

// inRedis is an environment with counters in Redis. A decision has all the time that the setting
// allows: one that is late on a busy machine follows the failure mode, and says nothing about limits.
func inRedis(s *redistest.Server) []string {
	return []string{"REDIS_HOST", s.Addr(), "REDIS_TIMEOUT", "2s"}
}

// stores sends n orders at once and returns the ids of those that are stored.
func (a *audited) stores(n int) (ids []string) {
	a.T.Helper()
	for i := range n {
		switch status, made := a.order(async+"Idempotency-Key=k"+strconv.Itoa(i), fmt.Sprint("kept", i)); status {
		case 201:
		case 202:
			ids = append(ids, made.ID)
		default:
			a.T.Fatalf("answered %d", status)
		}
	}
	return ids
}

// ends ends the proxy and returns when each order that came to the shop was admitted: after the proxy
// had begun to read it, and before it came.
func (a *audited) ends() (live, delivered []limittest.Span) {
	a.T.Helper()
	a.Terminate()
	text := testkit.Must(os.ReadFile(a.log))(a.T)
	came := make(map[string]int)
	a.shop.mu.Lock()
	defer a.shop.mu.Unlock()
	for i, body := range a.shop.orders {
		came[body] = i
	}
	if len(came) != len(a.shop.orders) {
		a.T.Errorf("%d orders came, %d of them different", len(a.shop.orders), len(came))
	}
	for line := range bytes.Lines(text) {
		var l struct {
			Time     time.Time
			Path     string
			Status   int
			Duration float64
		}
		if err := json.Unmarshal(line, &l); err != nil {
			a.T.Fatalf("%s: %v", line, err)
		}
		_, name, _ := strings.Cut(l.Path, "?")
		i, ok := came[name]
		if !ok || l.Status != http.StatusCreated {
			continue
		}
		began := l.Time.Add(-time.Duration(l.Duration*1e9) - time.Millisecond)
		s := limittest.Span{From: began.UnixMicro(), To: a.shop.at[i].UnixMicro()}
		if a.shop.fields[i].Get("X-Weir-Deferred") == "" {
			live = append(live, s)
		} else {
			delivered = append(delivered, s)
		}
		delete(came, name)
	}
	if len(came) > 0 {
		a.T.Errorf("the access log lacks %d orders", len(came))
	}
	return live, delivered
}

// Live and deferred requests keep one limit together in any span of time, whatever its algorithm and
// the order of deliveries are, and wherever its counters are.
func TestDeferralKeepsTheLimit(t *testing.T) {
	for _, l := range lawLimits {
		for _, order := range []string{"key", "none"} {
			for _, where := range []string{"simulated", "redis"} {
				t.Run(l.Algorithm.String()+" "+order+" "+where, func(t *testing.T) {
					t.Parallel()
					var env []string
					if where == "redis" {
						env = inRedis(redistest.Start(t))
					}
					a := auditing(t, l.text, "reserve: 0, order: "+order, env...)
					ids := a.stores(30)
					for i := range 15 { // live ones in between
						before := len(a.shop.got())
						a.order("", fmt.Sprint("live", i))
						testkit.Eventually(t, "an order comes",
							func() bool { return len(a.shop.got()) > before || len(a.shop.got()) >= 30 })
					}
					for _, id := range ids {
						a.becomes(id, "done")
					}
					live, delivered := a.ends()
					if len(delivered) != len(ids) || len(live) < 4 {
						t.Errorf("%d live orders and %d deliveries of %d", len(live), len(delivered), len(ids))
					}
					if err := limittest.CheckSpans(limittest.Must(l.Config), slices.Concat(live, delivered), 1); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
}

// A store that stops while requests are delivered does not let those that wait go at once: with mode
// open the proxy goes on with a state of its own, with closed they rest until it is there again.
func TestDeferralKeepsTheLimitThroughAnOutage(t *testing.T) {
	for _, l := range lawLimits {
		for _, mode := range []string{"open", "closed"} {
			t.Run(l.Algorithm.String()+" "+mode, func(t *testing.T) {
				t.Parallel()
				db := redistest.Start(t)
				a := auditing(t, l.text, "reserve: 0, order: none",
					append(inRedis(db), "STORE_FAILURE_MODE", mode, "EVENT_LOOPS", "1")...)
				ids := a.stores(60)
				db.Kill()
				if mode == "closed" {
					a.Logged("entering closed mode")
					db.Start()
				}
				for _, id := range ids {
					a.becomes(id, "done")
				}
				_, delivered := a.ends()
				if len(delivered) != len(ids) {
					t.Errorf("%d deliveries of %d", len(delivered), len(ids))
				}
				if err := limittest.CheckSpans(limittest.Must(l.Config), delivered, 2); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// A queue that refuses us for good ends the start with one line, which names its setting.
func TestDeferralPostgresMisconfigured(t *testing.T) {
	s := postgrestest.Start(t)
	s.Do("weir", "CREATE ROLE plain LOGIN")
	env := deferring(t, newShop(t), "algorithm: fixed, limit: 1, window: 1", "")
	for _, test := range []struct {
		url, told string
	}{
		{s.URL("plain:s3cret", "weir"), "grant CREATE on the database to the user of DEFER_URL"},
		{s.URL("weir:s3cret", "missing"), "create the database that DEFER_URL names"},
		{"postgres://weir:s3cret@localhost", "DEFER_URL"},
	} {
		cannotStart(t, append(env, "DEFER_URL", test.url), 2, test.told)
	}
}
