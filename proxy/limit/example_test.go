package limit_test

import (
	"encoding/json"
	"fmt"
	"time"

	"weir/proxy/limit"
)

func Example() {
	bucket, err := limit.New(limit.Config{Algorithm: limit.Token, Capacity: 2, FillRate: 0.5})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2026, 1, 19, 16, 30, 0, 0, time.UTC).UnixMicro()
	var key limit.State
	for range 3 {
		_, d := bucket.Take(now, &key, 1, 1)
		fmt.Println(d.Allowed, d.Remaining, d.RetryAfter, d.ResetAfter)
	}
	granted, d := bucket.Take(now+3_000_000, &key, 1, 5) // five more, three seconds later
	fmt.Println(granted, d.RetryAfter)
	// Output:
	// true 1 0s 2s
	// true 0 0s 4s
	// false 0 2s 4s
	// 1 1s
}

func ExampleConfig_Validate() {
	var c limit.Config
	if err := json.Unmarshal([]byte(`{"algorithm":"sliding","limit":100}`), &c); err != nil {
		fmt.Println(err)
	}
	fmt.Println(c.Validate())
	// Output:
	// window: is missing or 0; algorithm sliding needs it, greater than 0
}

// A queue that one request leaves every second: who comes is told how long to wait,
// and the client of the last one goes away.
func ExampleLimit_Decide() {
	queue, err := limit.New(limit.Config{Algorithm: limit.Leaky, Capacity: 2, FillRate: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2026, 1, 19, 16, 30, 0, 0, time.UTC).UnixMicro()
	var key limit.State
	var last limit.Decision
	for range 3 {
		_, last = queue.Decide(now, &key, limit.Charge{Cost: 1, N: 1})
		fmt.Println(last.Allowed, last.Delay)
	}
	fmt.Println(queue.Refund(now+500_000, &key, 1, last.Slot))
	_, d := queue.Decide(now+500_000, &key, limit.Charge{Cost: 1, N: 1, MaxDelay: time.Second})
	fmt.Println(d.Allowed, d.RetryAfter)
	_, d = queue.Decide(now+500_000, &key, limit.Charge{Cost: 1, N: 1})
	fmt.Println(d.Allowed, d.Delay)
	// Output:
	// true 0s
	// true 1s
	// true 2s
	// true
	// false 500ms
	// true 1.5s
}
