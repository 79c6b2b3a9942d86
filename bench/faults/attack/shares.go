package attack

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"weir/bench/lab/rig"
)

const (
	// without is how long the good client is alone in the baseline of an attack on a share.
	without = 3 * time.Second
	// span is how long it is beside attackers.
	span = 7 * time.Second
	// filling is how long before the good client the attackers of a queue come.
	filling = 2 * time.Second
	// goal is the success of the good client beside attackers, relative to its success without.
	goal = 0.95
	// crowdGoal is that beside attackers with many addresses: each of them has a share.
	crowdGoal = 0.90
	// deliveryWait is how long deferred requests may take after the last one was sent.
	deliveryWait = 5 * time.Second
)

// shares returns the attacks that try to take more than a client's share of what all clients
// share: places of the gate, memory, and the queue of deferred requests. A good client sends
// requests at a low rate from another address. All but those of a crowd have one address.
func shares() []scene { return []scene{slowPath(), identities(), disconnects(), memory(), queue()} }

// inside returns a target that this process serves.
func inside(h func(r *row) http.Handler) func(l *rig.Lab, r *row) string {
	return func(l *rig.Lab, r *row) string { return l.Serve(h(r)) }
}

// noLimit is the setting without a limit, so that only shares protect the good client, and roomy is
// the limit of a rule that never refuses.
const (
	noLimit = "RATE_LIMIT_ALGORITHM=off"
	roomy   = "limit: {algorithm: token, capacity: 1000000, fillRate: 1000000}"
)

// client returns the traffic of a good client, which never waits for a free connection.
func client(rate int) rig.Load {
	return rig.Load{URL: "/api/test", Rate: rate, For: span, Connections: rate, Timeout: time.Second, Outcomes: true}
}

// closed lets a client send a request after the answer to the last one and a pause.
func closed(pause time.Duration) func(a *attacker) {
	return func(a *attacker) { a.repeat(pause) }
}

// slowPath returns attacks with a path that takes long, at a target that serves any number of
// requests at the same time.
func slowPath() scene {
	const ruled = "9.0s" // the path with it has a rule of its own
	of := func(n int, wait string) attack {
		return attack{name: fmt.Sprintf("slow-%dx%s", n, wait),
			about: fmt.Sprintf("one client has %d requests at a time to a path that takes %s", n, wait),
			conns: n, opens: fastOpens, text: message("GET /after/" + wait), then: closed(0), from: 1, goal: goal}
	}
	route := of(40, ruled)
	route.name, route.about = "slow-route", "40 requests at a time to a path that takes 9 s and has a rule of its own"
	crowd := route
	crowd.name, crowd.about, crowd.from, crowd.goal = "slow-crowd", "slow-route from many addresses", 0, crowdGoal
	early := func(name string, a attack) attack {
		a.name, a.about, a.lead = name, a.name+" before the first request of the good client", 300*time.Millisecond
		return a
	}
	return scene{
		target:   inside(func(*row) http.Handler { return rig.FaultyTarget() }),
		settings: []string{noLimit},
		rules:    "rules:\n- {id: slow, match: {path: /after/" + ruled + "}, " + roomy + "}\n",
		good:     client(200), base: without,
		attacks: []attack{of(4, "9s"), of(40, "3s"), of(40, "9s"), route, crowd,
			early("slow-early", of(40, "9s")), early("slow-crowd-early", crowd)},
	}
}

// identities returns attacks with more requests than a target can serve, whose client changes the
// key or the address by which it is known. The rule applies to the usual path only.
func identities() scene {
	from := func(name, about, request string, fields ...string) attack {
		return attack{name: name, about: "100 connections, " + about, conns: 100, opens: fastOpens,
			text: message(request, fields...), then: closed(20 * time.Millisecond), from: 1, goal: goal}
	}
	good := client(50)
	good.Headers = map[string]string{"X-Client": "good", "X-Forwarded-For": "2001:db8:1::1"}
	return scene{
		target:   inside(func(*row) http.Handler { return rig.TargetWithWorkers(8, 10*time.Millisecond) }),
		settings: []string{noLimit, "TRUSTED_PROXIES=127.0.0.0/8"},
		rules:    "rules:\n- {id: client, match: {path: /api/test}, key: [\"header:X-Client\"], " + roomy + "}\n",
		good:     good, base: without,
		attacks: []attack{
			from("one-key", "one key and one address", usual, "X-Client: attack", "X-Forwarded-For: 2001:db8:2::1"),
			from("new-keys", "a new key for each request", usual, "X-Client: "+number, "X-Forwarded-For: 2001:db8:2::1"),
			from("new-addresses", "a new address of one /64 for each request, which has no key", "GET /other",
				"X-Forwarded-For: 2001:db8:2::"+number),
		},
	}
}

// disconnects returns the attacks whose requests are given up by their client, but not by the
// target.
func disconnects() scene {
	return scene{
		target:   inside(func(*row) http.Handler { return rig.TargetWithWorkers(8, 100*time.Millisecond) }),
		settings: []string{noLimit, "HTTP2=all"},
		good:     client(20), base: without,
		attacks: []attack{{name: "disconnects",
			about: "60 connections at a time are reset 5 ms after their request, which 8 workers × 100 ms serve all the same",
			conns: 60, opens: 500, text: message(usual), then: (*attacker).abort, from: 1, goal: goal}, abandoned()},
	}
}

// memory returns the attack that fills the memory budget.
func memory() scene {
	const all, most = 250_000, 200_000 // bytes of an upload, and those sent at once
	return scene{
		target:   inside(func(*row) http.Handler { return rig.FaultyTarget() }),
		settings: []string{noLimit, "MEMORY_BUDGET=96MiB"},
		good:     client(100), base: without,
		attacks: []attack{{name: "uploads",
			about: "1,300 uploads of 250 kB, of which 200 kB arrive at once and the rest slowly, with a budget of 96 MiB",
			conns: 1300, opens: 150, text: message(upload, fmt.Sprintf("Content-Length: %d", all)) + strings.Repeat("a", most),
			then: func(a *attacker) { a.drip(strings.Repeat("a", 1000)) }, from: 1, goal: goal, lead: 3 * time.Second}},
	}
}

// queue returns attacks on the queue of deferred requests. Good requests must be stored and
// delivered. A shop whose name begins with bad has its orders refused by the target.
func queue() scene {
	const large = 250_000
	order := func(shop, address string, bytes int) string {
		length := fmt.Sprintf("Content-Length: %d", bytes)
		return message("POST /orders", "X-Shop: "+shop, "X-Forwarded-For: "+address, length) + strings.Repeat("a", bytes)
	}
	fills := func(name, about string, conns int, text string, then func(a *attacker)) attack {
		return attack{name: name, about: about, conns: conns, opens: 200, text: text, then: then,
			from: 1, goal: goal, lead: filling}
	}
	good := client(30)
	good.URL, good.For, good.Timeout, good.Body = "/orders", 6*time.Second, 0,
		fmt.Sprintf("%q", strings.Repeat("a", 20_000))
	good.Headers = map[string]string{"X-Shop": "good-{{random 1 10}}", "X-Forwarded-For": "2001:db8:1::1"}
	return scene{
		target: inside(orders), stored: true,
		settings: []string{noLimit, "TRUSTED_PROXIES=127.0.0.0/8",
			"DEFER_MAX=200", "DEFER_MAX_BYTES=16MiB", "DEFER_RATE=200"},
		rules: "rules:\n- {id: orders, match: {methods: [POST]}, key: [\"header:X-Shop\"], " +
			"limit: {algorithm: gcra, limit: 4, window: 1}, defer: {when: always, reserve: 0}}\n",
		good: good, base: without,
		attacks: []attack{
			fills("store-cancel", "16 connections store requests of 250 kB and cancel them; the queue holds 16 MiB", 16,
				order("attack", "2001:db8:2::1", large), (*attacker).storeAndCancel),
			fills("dead-letters",
				"50 connections store requests of 250 kB that the target refuses, kept as failed; the queue holds 16 MiB",
				50, order("bad-"+own, "2001:db8:2::1", large), closed(100*time.Millisecond)),
			fills("queue-addresses",
				"50 connections with their own keys fill the queue of 200 requests from addresses of one /64", 50,
				order("attack-"+own, "2001:db8:2::"+number, 10), closed(50*time.Millisecond)),
			fills("store-rate", "50 connections have more requests stored than DEFER_RATE=200 allows", 50,
				order("attack", "2001:db8:2::1", 10), closed(10*time.Millisecond)),
		},
	}
}

// orders returns a target that counts the deferred orders of the good client.
func orders(r *row) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		shop := req.Header.Get("X-Shop")
		if strings.HasPrefix(shop, "bad") {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		if strings.HasPrefix(shop, "good") && req.Header.Get("X-Weir-Deferred") != "" {
			r.delivered.Add(1)
		}
	})
}

// awaitDeliveries waits until the target has received the good requests that were stored, or should
// have.
func (r *row) awaitDeliveries(ctx context.Context) {
	stored := int64(len(r.load.Answered(http.StatusAccepted)))
	for end := time.Now().Add(deliveryWait); r.delivered.Load() < stored && time.Now().Before(end); {
		rig.Check(rig.Wait(ctx, 20*time.Millisecond))
	}
}

// success returns the share of the good requests during the attack that were successful.
func (r *row) success() float64 {
	var asked, good int
	for _, o := range r.load.Outcomes {
		ok := o.Status == http.StatusOK
		switch {
		case r.scene.stored && ok, o.Due < r.attack.after() && r.attack.conns > 0:
			continue
		case ok:
			good++
		}
		asked++
	}
	if r.scene.stored {
		good = int(r.delivered.Load())
	}
	return float64(good) / float64(max(1, asked))
}
