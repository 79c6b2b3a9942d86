package upstream_test

import (
	"fmt"
	"math/rand/v2"

	"weir/proxy/upstream"
)

// One connection is allowed. The second request waits for it and gets it as
// soon as the first one is done.
func ExamplePool() {
	pool := upstream.NewPool[string, string](1, 100)
	first := &upstream.Waiter[string]{Value: "first"}
	second := &upstream.Waiter[string]{Value: "second"}

	_, grant := pool.Acquire(first, false)
	fmt.Println(grant == upstream.WaitAndDial)
	fmt.Println(pool.Dialled("conn 1").Value)

	_, grant = pool.Acquire(second, false)
	fmt.Println(grant == upstream.Wait)
	fmt.Println(pool.Release("conn 1").Value)

	pool.Release("conn 1")
	fmt.Println(pool.Idle(), pool.Busy())
	// Output:
	// true
	// first
	// true
	// second
	// 1 0
}

// The power of two choices: the emptier of two targets drawn at random.
func ExampleChooser() {
	inFlight := []int{12, 3}
	c := upstream.NewChooser(upstream.P2C, rand.New(rand.NewPCG(1, 2)))
	i := c.Choose(len(inFlight), func(i int) int { return inFlight[i] })
	fmt.Println(i)
	// Output: 1
}
