package simredis_test

import (
	"fmt"
	"time"

	"weir/proxy/limit"
	"weir/proxy/store"
	"weir/proxy/store/simredis"
)

// Three requests of one client wait for the same two counters. The client's limit
// has room for two of them, and the third is charged to neither.
func Example() {
	table, err := simredis.New(simredis.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	global, _ := limit.NewFixed(100, time.Minute)
	client, _ := limit.New(limit.Config{Algorithm: limit.Token, Capacity: 2, FillRate: 0.5})
	ask := store.Ask{N: 3, Counters: []store.Counter{
		{Rule: "global", Limit: &global, Cost: 1},
		{Rule: "clients", Key: []byte("ann"), Limit: &client, Cost: 1},
	}}
	var ans store.Answer
	now := time.Date(2026, 1, 19, 16, 30, 0, 0, time.UTC)
	table.Take(now, &ask, &ans)

	fmt.Println("granted:", ans.Granted)
	fmt.Println("global: ", ans.Decisions[0].Allowed, ans.Decisions[0].Remaining, "left")
	fmt.Println("clients:", ans.Decisions[1].Allowed, "retry after", ans.Decisions[1].RetryAfter)
	// Output:
	// granted: 2
	// global:  true 98 left
	// clients: false retry after 2s
}
