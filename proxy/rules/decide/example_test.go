package decide_test

import (
	"fmt"
	"strings"
	"time"

	"weir/internal/net/http1"
	"weir/proxy/limit"
	"weir/proxy/rules/decide"
	"weir/proxy/rules/keys"
	"weir/proxy/store"
)

// A request is asked about, the store grants it, and the client gets its rate limit fields.
func Example() {
	l, _ := limit.NewFixed(10, time.Minute)
	policy := decide.NewPolicy(l)

	var c decide.Evaluation
	c.Begin(policy, &decide.Request{Described: &keys.Request{Method: http1.GET}})
	fmt.Println("asked about", c.Ask.Counters[0].Rule)

	answer := store.Answer{Granted: 1,
		Decisions: []limit.Decision{{Allowed: true, Limit: 10, Remaining: 9, ResetAfter: 6 * time.Second}}}
	var verdict decide.Verdict
	verdict.Judge(&decide.CounterResults{Policy: policy, Asked: c.Asked, Answer: &answer})
	fmt.Print(strings.ReplaceAll(string(verdict.AppendFields(nil, decide.Standard)), "\r\n", "\n"))
	// Output:
	// asked about global
	// RateLimit-Policy: "global";q=10;w=60
	// RateLimit: "global";r=9;t=6
}
