package gate_test

import (
	"fmt"
	"time"

	"weir/proxy/targets/gate/gatetest"
)

// A target of 15 workers answers 1,500 requests per second, and is asked for 2,000.
// After ten seconds it works at half speed for ten more. With a gate it answers nearly
// all it can in time; without one every request waits behind those that came before.
func Example() {
	for _, gates := range []int{0, 1} {
		w := gatetest.World{
			Length: 20 * time.Second, InTime: 100 * time.Millisecond, Gates: gates,
			Workers: 15, Service: 10 * time.Millisecond, CV: 1, Queue: 1000,
			Wait:   50 * time.Millisecond,
			Stages: []gatetest.Stage{{Load: 2000}, {From: 10 * time.Second, Speed: .5}},
		}
		share := gatetest.Play(w).Ratio(10*time.Second, 20*time.Second)
		fmt.Printf("%d gates: at least nine tenths of what is possible: %t\n", gates, share >= .9)
	}
	// Output:
	// 0 gates: at least nine tenths of what is possible: false
	// 1 gates: at least nine tenths of what is possible: true
}
