package session

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/proxy/http/exchange"
	"weir/proxy/limit"
	"weir/proxy/rules/decide"
	"weir/proxy/rules/rule"
	"weir/proxy/store"
)

// An answer of the store that comes later costs no allocation either, whether the request
// passes, is refused, or waits for its slot.
func TestNoAllocationForLateAnswers(t *testing.T) {
	set, err := rule.Read([]byte(`rules:
- {id: a, key: [ip], limit: {algorithm: fixed, limit: 1, window: 60}}`), rule.Options{})
	if err != nil {
		t.Fatal(err)
	}
	taken := limit.Decision{Allowed: true, Limit: 1}
	for _, x := range []struct {
		name     string
		granted  int
		decision limit.Decision
		want     string
	}{
		{"passes", 1, taken, "HTTP/1.1 200"},
		{"is refused", 0, limit.Decision{Limit: 1, RetryAfter: time.Second}, "HTTP/1.1 429"},
		{"waits", 1, limit.Decision{Allowed: true, Limit: 1, Delay: time.Second, Slot: 7}, "HTTP/1.1 200"},
	} {
		b := newBench(t, 1)
		policy := b.env.Policy().With(set, "1")
		b.env.Policy = func() *decide.Policy { return policy }
		b.env.Ask = func(time.Time, *exchange.Exchange, *store.Ask, *store.Answer) bool { return false }
		ans := store.Answer{Granted: x.granted, Decisions: []limit.Decision{taken, x.decision}, Tightest: 1}
		request, answer := []byte(exchanges[0].request), []byte(exchanges[0].answer)
		if n := testing.AllocsPerRun(200, func() {
			fx := &b.fx
			b.s.HandleClient(b.now, request)
			b.s.MoveEffects(b.now, fx)
			b.s.Exchange.HandleDecision(b.now, &ans)
			b.s.MoveEffects(b.now, fx)
			if !fx.Wake.IsZero() {
				b.s.Exchange.HandleWake(b.now)
				b.s.MoveEffects(b.now, fx)
			}
			if fx.Acquire != exchange.AcquireNone {
				b.s.Exchange.HandleAcquired(b.now, true)
				b.s.MoveEffects(b.now, fx)
				b.s.HandleUpstream(b.now, answer)
				b.s.MoveEffects(b.now, fx)
			}
			if len(fx.Client) < len(x.want) || string(fx.Client[:len(x.want)]) != x.want || fx.Close != CloseNone {
				t.Fatalf("%s: to the client %q, close %d", x.name, fx.Client, fx.Close)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", x.name, n)
		}
	}
}

// A request that is refused later costs its connection only if its body has not arrived meanwhile. The
// refusal is that of its own request, although another one is refused in between.
func TestBodyOfLateRefusal(t *testing.T) {
	for _, test := range []struct {
		name, sent, rest string
		close            Close
	}{
		{"all of it is there", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody", "", CloseNone},
		{"with the next request", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody", "GET / HTTP/1.1\r\n",
			CloseNone},
		{"a part is missing", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbo", "", CloseLinger},
		{"all of it is missing", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n", "", CloseLinger},
		{"chunks", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nbo\r\n0\r\n\r\n", "", CloseNone},
	} {
		b := newBench(t, 2)
		b.env.Ask = func(time.Time, *exchange.Exchange, *store.Ask, *store.Answer) bool { return false }
		other := newPair(b.now, &b.env, b.s.Exchange.Remote, false)
		sent := []byte(test.sent + test.rest)
		n := b.s.HandleClient(b.now, sent)
		other.HandleClient(b.now, sent)
		other.Effects(b.now)
		b.s.Effects(b.now)
		refuse := func(s *pair, after time.Duration) *Effects {
			s.Exchange.HandleDecision(b.now, &store.Answer{Decisions: []limit.Decision{{Limit: 1, RetryAfter: after}}})
			fx := s.Effects(b.now)
			return &fx
		}
		fx := refuse(b.s, 7*time.Second)
		if len(sent) > n != fx.Read {
			t.Errorf("%s: %d bytes are unread, and Read is %t", test.name, len(sent)-n, fx.Read)
		}
		if first := *fx; first.Read {
			refuse(other, 9*time.Second)
			n += b.s.HandleClient(b.now, sent[n:])
			*fx = b.s.Effects(b.now)
		}
		if got := string(fx.Client); !strings.HasPrefix(got, "HTTP/1.1 429 ") ||
			!strings.Contains(got, "Retry-After: 7\r\n") {
			t.Errorf("%s: to the client %q", test.name, got)
		}
		if fx.Close != test.close || test.close == CloseNone && n != len(test.sent) {
			t.Errorf("%s: close %d after %d bytes, want %d after %d", test.name, fx.Close, n, test.close, len(test.sent))
		}
	}
}

// An outcome tells the client's part of the time from the target's.
func TestOutcomeTimes(t *testing.T) {
	const small, large = `client "GET / HTTP/1.1\r\nHost: x\r\n\r\n"`,
		`client "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 40\r\n\r\n0123456789"`
	const rest, answer = `client "012345678901234567890123456789"`,
		`upstream "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK"`
	for _, test := range []struct {
		name  string
		lines []string
		want  string // sent, complete, answered; seconds
	}{
		{"without a body", []string{small, "at 1s", "acquired new", "at 3s", answer}, "1 1 3"},
		{"a body that is collected", []string{`client "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n01"`,
			"at 1s", `client "23"`, "at 2s", "acquired new", "at 3s", answer}, "2 2 3"},
		{"sent once more", []string{small, "at 1s", "acquired reused", "at 2s", "upstream-closed eof", "at 3s",
			"acquired new", "at 5s", answer}, "3 3 5"},
		{"uploaded", []string{large, "at 1s", "acquired new", "at 3s", rest, "at 5s", answer}, "1 3 5"},
		{"uploaded in chunks", []string{`client "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n21\r\n012345678901234567890123456789012\r\n"`, "at 1s", "acquired new",
			"at 3s", `client "0\r\n\r\n"`, "at 5s", answer}, "1 3 5"},
		{"answered in pieces", []string{small, "acquired new", "at 1s",
			`upstream "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nO"`, "at 3s", `upstream "K"`}, "0 0 1"},
		{"after a word in between",
			[]string{small, "acquired new", "at 1s", `upstream "HTTP/1.1 103 Early Hints\r\n\r\n"`, "at 2s", answer}, "0 0 2"},
		{"answered before it was uploaded", []string{large, "acquired new", "at 2s", answer}, "0 - 2"},
		{"left while it uploaded", []string{large, "at 1s", "acquired new", "at 9s", "gone"}, "1 - -"},
		{"broken off while it uploaded", []string{large, "at 1s", "acquired new", "at 9s", "upstream-closed reset"}, "1 - -"},
		{"left after it had uploaded", []string{large, "at 1s", "acquired new", "at 3s", rest, "at 9s", "gone"}, "1 3 -"},
		{"no answer in time", []string{small, "at 1s", "acquired new", "at 11s", "expire"}, "1 1 -"},
		{"never sent", []string{large, "at 1s", "gone"}, "- - -"},
		{"a switch of protocols", []string{`client "GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"`, "at 1s", "acquired new",
			"at 2s", `upstream "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"`},
			"1 1 2"},
	} {
		p, got := newPlayer(), "no outcome"
		for _, line := range test.lines {
			p.play(line)
		}
		if o := &p.last; !o.Began.IsZero() {
			got = fmt.Sprintf("%s %s %s", p.seconds(o.Sent), p.seconds(o.Complete), p.seconds(o.Answered))
		}
		if got != test.want || p.err != nil {
			t.Errorf("%s: %s, %v, want %s", test.name, got, p.err, test.want)
		}
	}
}

// seconds is a time since the player's start.
func (p *player) seconds(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return fmt.Sprint(at.Sub(p.start).Seconds())
}
