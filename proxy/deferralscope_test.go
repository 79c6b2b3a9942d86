package main

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/store/postgres/postgrestest"
	"weir/proxy/store/redis/redistest"
)

// Under a rule whose key does not identify a client, an Idempotency-Key is one client's, with its
// credentials: another client that sends the same gets neither its Location nor keeps its request from
// being stored.
func TestDeferralScope(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"[global]", "[path]", "[method, host]", "['header:X-Shop', path]", "['query:shop']",
		"[ip/8, 'cookie:shop']", "[ip/56]"} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			p := scoping(t, key)
			first := p.scoped("192.0.2.1", "Authorization=right")
			for _, other := range [][2]string{
				{"192.0.2.2", "Authorization=right"}, {"192.0.2.1", "Authorization=wrong"}, {"192.0.2.1", ""},
				{"192.0.2.1", "Authorization=right Cookie=a"},
			} {
				if id := p.scoped(other[0], other[1]); id == first {
					t.Errorf("%s with %q gets the Location of another client", other[0], other[1])
				}
			}
			if id := p.scoped("192.0.2.1", "Authorization=right"); id != first {
				t.Errorf("the same request is stored as %s and as %s, want one", first, id)
			}
		})
	}
	t.Run("identified", func(t *testing.T) {
		t.Parallel()
		p := scoping(t, "[path, 'header:X-Shop']")
		if one, other := p.scoped("192.0.2.1", "X-Shop=a"), p.scoped("192.0.2.2", "X-Shop=a"); one != other {
			t.Errorf("a client that its rule's key identifies has %s at one address and %s at another, want one", one, other)
		}
	})
}

// scoping starts a proxy that stores what exceeds one request of a key.
func scoping(t *testing.T, key string) *running {
	folder := t.TempDir()
	rules := filepath.Join(folder, "rules.yaml")
	testkit.WriteFile(t, rules, "rules:\n- {id: orders, match: {methods: [POST], path: /orders}, key: "+key+
		", limit: {algorithm: fixed, limit: 1, window: 3600}, defer: {}}\n")
	return launch(t, []string{"TARGET_URL", newShop(t).URL, "RULES_FILE", rules, "TRUSTED_PROXIES", "127.0.0.0/8",
		"DEFER_URL", "file:" + filepath.Join(folder, "queue"), "GATE", "off"})
}

// scoped has a request stored that the limit refuses, and returns its id.
func (p *running) scoped(client, fields string) string {
	p.T.Helper()
	sent := "POST /orders?shop=a X-Forwarded-For=" + client + " " + fields
	p.Call(sent, "admitted or not")
	status, text := p.Call(sent+" Idempotency-Key=k "+async, "order")
	var made promise
	if err := json.Unmarshal([]byte(text), &made); status != 202 || err != nil {
		p.T.Fatalf("%s with %q: answered %d %s", client, fields, status, text)
	}
	return made.ID
}

// A repetition of a request that waits is not sent beside it, although the limit would admit it. It
// gets the same Location, with each kind of queue, and after the delivery the target's answer.
func TestDeferralRepeatedWhileWaiting(t *testing.T) {
	t.Parallel()
	redis, postgres := redistest.Start(t, "--appendonly", "yes"), postgrestest.Start(t) // without fsync
	for url, durability := range map[string]string{"file:" + filepath.Join(t.TempDir(), "queue"): "fsync",
		"redis://" + redis.Addr(): "everysec", postgres.URL("weir", "weir"): "memory"} {
		s := newShop(t)
		p := launch(t, append(deferring(t, s, "algorithm: token, capacity: 1, fillRate: 20", "for: 600, reserve: 0"),
			"DEFER_URL", url))
		p.Require("POST /config/deferred", 200, "changed", `{"rule":"orders","paused":true}`)
		made := p.stored("Idempotency-Key=k", "kept")
		if made.Durability != durability {
			t.Errorf("%s: promised %q, want %q", url, made.Durability, durability)
		}
		live := len(s.got())
		for range 20 {
			if status, again := p.order(async+"Idempotency-Key=k", "kept"); status != 202 || again.ID != made.ID {
				t.Fatalf("%s: repeated, it is answered %d of %s, not of %s", url, status, again.ID, made.ID)
			}
			time.Sleep(5 * time.Millisecond) // meanwhile the limit has admitted some of them
		}
		if n := len(s.got()); n != live {
			t.Errorf("%s: %d of the repetitions are sent", url, n-live)
		}
		p.Require("POST /config/deferred", 200, "changed", `{"rule":"orders","paused":false}`)
		p.becomes(made.ID, "done")
		p.Require("POST /orders?kept X-Shop=a Idempotency-Key=k "+async, 201, "got kept", "kept")
		if n := len(s.got()); n != live+1 {
			t.Errorf("%s: it is sent %d times", url, n-live)
		}
	}
}
