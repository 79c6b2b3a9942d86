package wire

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

// secondsLeft is when the window of a century ends.
func secondsLeft(at time.Time) float64 {
	return century.Seconds() - float64(at.UnixNano())/1e9
}

// between fails unless text is a number of seconds that, rounded up, was true
// at some time since began.
func between(t *testing.T, what, text string, began time.Time) {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	least, most := math.Ceil(secondsLeft(time.Now())), math.Ceil(secondsLeft(began))
	if err != nil || float64(n) < least || float64(n) > most {
		t.Errorf("%s says %s, want %.0f to %.0f", what, text, least, most)
	}
}

// The exact fields and bodies that clients receive.
func TestLimitFields(t *testing.T) {
	r := serve(t, echoes, "RATE_LIMIT_LIMIT", "2")
	const fields = `X-RateLimit-Limit=2 RateLimit-Policy="global";q=2;w=3153600000`
	for left := 1; left >= 0; left-- {
		began := time.Now()
		r.playf(`a GET / -> 200 global %d X-RateLimit-Remaining=%[1]d %s Retry-After= X-RateLimit-Retry-After= X-Weir-Decision=`,
			left, fields)
		between(t, "t of RateLimit", strings.Split(r.last("a").res.Header.Get("RateLimit"), ";t=")[1], began)
	}
	began := time.Now()
	r.playf(`a GET / -> 429 global 0 X-RateLimit-Remaining=0 %s Content-Type=application/json`, fields)
	a := r.last("a")
	after := a.res.Header.Get("Retry-After")
	equal(t, "X-RateLimit-Retry-After", a.res.Header.Get("X-RateLimit-Retry-After"), after)
	between(t, "Retry-After", after, began)
	between(t, "t of RateLimit", strings.Split(a.res.Header.Get("RateLimit"), ";t=")[1], began)
	refusalIs(t, r, a, began)
	r.play(`a GET / -> 429`) // the connection goes on
}

// refusalIs looks at the body of a 429, and at what GET /config/decisions tells
// of it.
func refusalIs(t *testing.T, r *rig, a *testClient, began time.Time) {
	t.Helper()
	var told struct {
		Error, Rule, Decision string
		RetryAfter            float64
	}
	a.decode(&told)
	if told.Error != "rate limit exceeded" || told.Rule != "global" || told.Decision == "" ||
		told.Decision != a.res.Header.Get("X-Weir-Decision") {
		t.Errorf("told %+v with %v", told, a.res.Header)
	}
	if told.RetryAfter > secondsLeft(began)+1e-3 || told.RetryAfter < secondsLeft(time.Now())-1e-3 {
		t.Errorf("retryAfter %v", told.RetryAfter)
	}
	r.playf(`a GET /config/decisions/%s -> 200`, told.Decision)
	var why struct {
		ID, Rule, Algorithm, Client string
		At                          time.Time
		Limit, Remaining            int64
		RetryAfter, ResetAfter      float64
	}
	a.decode(&why)
	if why.ID != told.Decision || why.Rule != "global" || why.Algorithm != "fixed" || why.Client != "127.0.0.1" ||
		why.At.Before(began) || why.Limit != 2 || why.Remaining != 0 || math.Abs(why.RetryAfter-told.RetryAfter) > 1e-4 ||
		why.ResetAfter != why.RetryAfter {
		t.Errorf("the decision: %s", a.body)
	}
}

func TestRateLimitHeaders(t *testing.T) {
	target := newTarget(t, says("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-RateLimit-Limit: 999\r\nratelimit: 999\r\n"+
		"RateLimit-Limit: 999\r\n\r\n"))
	const (
		legacy   = ` X-RateLimit-Limit=1 X-RateLimit-Remaining=0`
		standard = ` global 0 RateLimit-Policy="global";q=1;w=3153600000`
		envoy    = ` RateLimit-Limit=1 RateLimit-Remaining=0 RateLimit-Reset=*`
	)
	for word, own := range map[string]struct{ has, targets, lacks string }{ // fields of the proxy; of the target; none
		"off": {``, ` X-RateLimit-Limit=999 RateLimit=999 RateLimit-Limit=999`,
			` X-RateLimit-Limit= X-RateLimit-Remaining= RateLimit= RateLimit-Policy= RateLimit-Limit= RateLimit-Reset=`},
		"legacy": {legacy, ` RateLimit=999 RateLimit-Limit=999`,
			` X-RateLimit-Retry-After=* RateLimit= RateLimit-Policy= RateLimit-Limit= RateLimit-Remaining= RateLimit-Reset=`},
		"standard": {standard, ` X-RateLimit-Limit=999 RateLimit-Limit=999`,
			` X-RateLimit-Limit= X-RateLimit-Remaining= X-RateLimit-Retry-After= RateLimit-Limit= RateLimit-Reset=`},
		"both": {standard + legacy, ` RateLimit-Limit=999`, ` X-RateLimit-Retry-After=* RateLimit-Limit= RateLimit-Reset=`},
		"envoy": {envoy, ` X-RateLimit-Limit=999 RateLimit=999`,
			` X-RateLimit-Limit= X-RateLimit-Remaining= X-RateLimit-Retry-After= RateLimit= RateLimit-Policy=`},
	} {
		t.Run(word, func(t *testing.T) {
			start(t, target.url(), "RATE_LIMIT_HEADERS", word, "RATE_LIMIT_LIMIT", "1").play(`
				a GET / + GET /; a -> 200` + own.has + own.targets + `
				a -> 429` + own.has + own.lacks + ` Retry-After=* X-Weir-Decision=*`)
		})
	}
}

// In one window exactly as many requests are admitted as the limit allows, whichever loops they
// arrive on, and the target receives no others.
func TestExactCount(t *testing.T) {
	for _, test := range []struct {
		name string
		env  []string
	}{
		{"fixed", []string{"RATE_LIMIT_LIMIT", "500"}},
		{"sliding", []string{"RATE_LIMIT_ALGORITHM", "sliding", "RATE_LIMIT_LIMIT", "500"}},
		{"token", []string{"RATE_LIMIT_ALGORITHM", "token", "RATE_LIMIT_CAPACITY", "500", "RATE_LIMIT_FILL_RATE",
			"0.000001"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var admitted, refused atomic.Int64
			r := serve(t, echoes, test.env...)
			r.together(16, func(_ int, c *testkit.Conn) {
				c.Send(strings.Repeat(get, 50))
				for range 50 {
					switch res, _ := c.Answer("GET"); res.StatusCode {
					case 200:
						admitted.Add(1)
					case 429:
						refused.Add(1)
					}
				}
			})()
			if admitted.Load() != 500 || refused.Load() != 300 {
				t.Errorf("%d admitted, %d refused", admitted.Load(), refused.Load())
			}
			r.play(`target served 500`)
			r.metrics(`forwarded=500 rejected=300 global.forwarded=500 global.rejected=300
				requests_by_algorithm_total{algorithm=%q}=800`, test.name)
		})
	}
}

// post is a pipelined change of the limit.
func post(config string) string {
	return fmt.Sprintf("POST /config/limits HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(config), config)
}

// A change counts for the very next request. What was consumed stays consumed
// when only the amount changes; each window and algorithm counts by itself, also
// when the limit changes back.
func TestChangeCountsForTheNextRequest(t *testing.T) {
	r := serve(t, echoes, "RATE_LIMIT_LIMIT", "3")
	fixed := func(limit int) string {
		return fmt.Sprintf(`POST /config/limits body={"algorithm":"fixed","limit":%d,"window":3153600000}`, limit)
	}
	const ask = ` + GET /`
	for _, step := range []struct{ asked, answers string }{
		{`GET /` + ask + ask + ask, `200*3 + 429`},
		{fixed(5) + ask + ask + ask, `200*3 + 429`},
		{fixed(2) + ask + " + " + fixed(6) + ask + ask, `200 + 429 + 200*2 + 429`},
		{`POST /config/limits body={"algorithm":"fixed","limit":1,"window":1576800000}` + ask + ask, `200*2 + 429`},
		{`POST /config/limits body={"algorithm":"token","capacity":2,"fillRate":0.000001}` + ask + ask + ask, `200*3 + 429`},
		{`POST /config/limits body={"algorithm":"token"}` + ask, `400 + 429`},
		{`DELETE /config/limits` + ask, `200 + 429`},
		{`POST /config/limits body={"algorithm":"token","capacity":3,"fillRate":0.000001}` + ask + ask, `200*2 + 429`},
	} {
		r.play(`a ` + step.asked + `; a -> ` + step.answers)
	}
}

// Only the latest refusals are remembered.
func TestDecisionsAreForgotten(t *testing.T) {
	r := serve(t, echoes, "RATE_LIMIT_LIMIT", "1", "EVENT_LOOPS", "1")
	r.play(`a GET / -> 200`)
	var ids []string
	for range 65 { // the rig's loops remember 64
		r.play(`a GET / -> 429`)
		ids = append(ids, r.last("a").res.Header.Get("X-Weir-Decision"))
	}
	for id, want := range map[string]int{ids[0]: 404, ids[1]: 200, ids[64]: 200,
		"x": 404, ids[0] + "0": 404, ids[64][:len(ids[64])-1] + "!": 404} {
		r.playf(`GET /config/decisions/%s -> %d`, id, want)
	}
}

// Refusals are logged together, with their number, never one by one.
func TestRefusalsAreLogged(t *testing.T) {
	t.Parallel() // waits for a second
	r := serve(t, echoes, "RATE_LIMIT_LIMIT", "1")
	r.play(`GET / -> 200
		30 x GET / -> 429`)
	r.until("all refusals are logged", func() bool {
		sum := 0
		for line := range strings.Lines(r.log.String()) {
			if _, count, ok := strings.Cut(line,
				`level=WARN msg="Requests rejected: limit exceeded" component=RateLimiter rule=global count=`); ok {
				n := testkit.Must(strconv.Atoi(strings.TrimSpace(count)))(t)
				sum += n
			}
		}
		return sum == 30
	})
}

// A page of another origin can read a refusal, and what it says of the limit; an answer
// of the target is as the target sent it.
func TestRefusalsAreToldToPages(t *testing.T) {
	const rules = `rules:
- {id: refuses, match: {path: /refuses}, key: ["header:X-A"], missing: refuse, limit: {algorithm: off}}`
	const told = `Access-Control-Allow-Origin=https://a.example Vary=Origin Access-Control-Expose-Headers="Retry-After, ` +
		`RateLimit, RateLimit-Policy, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Retry-After, X-Weir-Decision"`
	const nothing = `Access-Control-Allow-Origin= Vary= Access-Control-Expose-Headers=`
	for _, test := range [][3]string{{"auto", `Origin=https://a.example`, told}, {"auto", ``, nothing},
		{"off", `Origin=https://a.example`, nothing}, {"off", ``, nothing}} {
		startAt(t, "http://127.0.0.1:1", rules, "RATE_LIMIT_LIMIT", "1", "CORS", test[0]).playf(`
			GET /refuses %[1]s -> 400 %[2]s
			GET / %[1]s -> 502 %[3]s
			GET / %[1]s -> 429 %[2]s`, test[1], test[2], nothing)
	}
}
