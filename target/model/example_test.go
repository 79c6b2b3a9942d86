package model_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"weir/target/model"
)

// One worker that takes 10 ms serves 100 requests per second. Three that come
// at once are served one after the other; a fourth finds the queue full.
func Example() {
	start := time.Date(2026, 1, 19, 16, 30, 0, 0, time.UTC)
	cfg := model.Config{Delay: 10 * time.Millisecond, Workers: 1, Queue: 2, QueueTimeout: time.Second}
	m, err := model.New[string](start, cfg, rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, who := range []string{"a", "b", "c", "d"} {
		_, outcome := m.Arrive(start, who)
		fmt.Println(who, outcome)
	}
	for at, ok := m.Next(); ok; at, ok = m.Next() {
		for _, d := range m.Expire(at, nil) {
			fmt.Println(d.Who, d.Outcome, "after", d.At.Sub(start), "of which", d.Wait, "waiting")
		}
	}
	// Output:
	// a started
	// b queued
	// c queued
	// d refused
	// a served after 10ms of which 0s waiting
	// b served after 20ms of which 10ms waiting
	// c served after 30ms of which 20ms waiting
}
