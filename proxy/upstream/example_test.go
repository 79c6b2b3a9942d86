package upstream_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"weir/proxy/upstream"
)

// One connection is allowed. The second request waits for it and gets it as
// soon as the first one is done.
func ExamplePool() {
	pool := upstream.NewPool[string, string](1, 1, 100)
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
func ExampleGroup() {
	now := time.Date(2026, 1, 19, 16, 30, 0, 0, time.UTC)
	inFlight := func(string) int { return 0 }
	g := upstream.NewGroup(upstream.RoundRobin, upstream.Ejection{}, inFlight, rand.New(rand.NewPCG(1, 2)))
	g.Add("a")
	g.Add("b")

	var tried upstream.Tried
	first := g.Choose(now, &tried)
	first.ConnectFailed(now, first.Mark())
	second := g.Choose(now, &tried)
	second.Answered(now, second.Mark(), 200)
	fmt.Println(first.Value, first.Status(now), second.Value, second.Status(now))

	now = now.Add(1250 * time.Millisecond)
	fmt.Println(first.Status(now))
	// Output:
	// a ejected b up
	// probing
}

// A name moves from one address to another: the old one stays for one answer
// more.
func ExampleMembers() {
	old, next := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	members := upstream.NewMembers(128)
	for _, addr := range []netip.Addr{old, next, next} {
		members.Answered(upstream.Answer{Addrs: []netip.Addr{addr}})
		fmt.Println(members.Addrs())
	}
	// Output:
	// [10.0.0.1]
	// [10.0.0.1 10.0.0.2]
	// [10.0.0.2]
}
