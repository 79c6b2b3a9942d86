package session

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/deferred"
	"weir/proxy/deferred/callback"
	"weir/proxy/http/exchange"
	"weir/proxy/limit"
	"weir/proxy/rules/decide"
	"weir/proxy/rules/pattern"
	"weir/proxy/rules/rule"
	"weir/proxy/store"
)

// TestScripts plays testdata/*.txt: each block is commands, a line "----", and
// what the session did. Lines that begin with # explain.
//
//	at 5s                       the clock, from the start of the script
//	secure                      the client came by TLS
//	trusted                     the client is a trusted proxy
//	no-via                      neither requests nor answers carry Via
//	rate N                      the least bytes per second of a body
//	max N                       the largest body
//	requests N                  the most requests of the connection
//	age D                       the most time of the connection, from now on
//	buffer N                    the largest body that is collected
//	shed                        the proxy is overloaded
//	shortage                    the session must free its memory
//	limit allow|deny|never|open|closed|later    what the limiter says from now on
//	limit deny N | delay D      counter N refuses; the last counter's queue has a slot in D
//	rules "text"                beside the global limit
//	wake                        the slot in the queue has come
//	deferrals N                 refused requests may be stored, with bodies of up to N bytes
//	delivery "lines"            the next request was stored, and gets these field lines
//	stored OUTCOME              what came of storing a request
//	known BOOL                  whether a request was found in the queue
//	client "bytes"              bytes from the client, behind those unread
//	decided                     the answer that "limit later" held back
//	acquired new|reused         a connection to the target
//	unavailable FAULT           none to the target chosen
//	overloaded                  the target chosen is
//	waits                       all connections to the target chosen are taken
//	streams refuse              no connection may carry one more stream
//	places none                 the target has no place for a request whose last piece is withheld
//	admitted                    it has one again
//	exhausted one|several       none to any, of one or several targets
//	full|relieved client|target takes nothing for the moment, or does again
//	client-end, upstream-end    sends no more
//	upstream "bytes"            bytes from the target
//	upstream-closed eof|reset   its connection is gone
//	own STATUS "body"           an own endpoint's answer
//	expire                      the deadline has passed
//	drain                       the proxy ends
//	gone                        the client is gone
func TestScripts(t *testing.T) {
	testkit.RunScripts(t, func() func(commands []string) (string, error) {
		return func(commands []string) (string, error) {
			p := newPlayer()
			for _, line := range commands {
				p.play(line)
			}
			return p.log.String(), p.err
		}
	})
}

// A player drives one session as the rim would.
type player struct {
	now     time.Time
	start   time.Time
	limit   string
	env     Env
	s       *pair
	unread  []byte // of the client
	waiting []byte // of the target
	log     strings.Builder
	closed  bool
	streams bool // the answer may be streamed
	full    bool // the target has no place for the last piece of a request
	read    bool // what is unread is to be shown again
	last    exchange.Outcome
	err     error // of the script

	policy   *decide.Policy
	counters int // of the last ask
}

// chargedAt is the store's clock in all its answers.
const chargedAt = 55

func newPlayer() *player {
	start := time.Date(2026, 1, 19, 16, 30, 0, 0, time.UTC)
	p := &player{now: start, start: start, limit: "allow", streams: true}
	l, err := limit.NewFixed(10, time.Second)
	if err != nil {
		panic(err)
	}
	p.policy = decide.NewPolicy(l)
	p.env = Env{Settings: testSettings(), Env: exchange.Env{
		Policy: func() *decide.Policy { return p.policy },
		Ask: func(_ time.Time, _ *exchange.Exchange, ask *store.Ask, ans *store.Answer) bool {
			p.counters = len(ask.Counters)
			if p.counters > 1 {
				for _, c := range ask.Counters {
					fmt.Fprintf(&p.log, "counter %s key %q cost %d reserve %d\n", c.Rule, c.Key, c.Cost, c.Reserve)
				}
			}
			if p.limit == "later" {
				return false
			}
			*ans = answerFor(p.limit, p.counters)
			ans.At = chargedAt
			return true
		},
		Sheds:   true,
		Refused: func(time.Time, *decide.Refusal) []byte { return []byte("d-1") },
	}}
	p.s = newPair(p.now, &p.env, netip.MustParseAddr("192.0.2.7"), false)
	return p
}

func testSettings() *Settings {
	return &Settings{HeadTimeout: 10 * time.Second, IdleTimeout: 60 * time.Second, TunnelTimeout: time.Hour,
		DrainGrace: 200 * time.Millisecond, Settings: exchange.Settings{
			OwnPaths: pattern.NewPaths([]string{"/metrics", "/config/limits", "/config/x"}), OwnBytesMax: 1 << 20,
			BufferBytesMax: 32, BodyTimeout: 15 * time.Second,
			ConnectTimeout: time.Second, WaitTimeout: 2 * time.Second, TargetTimeout: 10 * time.Second,
			StreamTimeout: 30 * time.Second,
			Pseudonym:     "weir", Via: true, Upgrades: []string{"websocket"}, PreserveHost: true,
			Style:          decide.RefusalStyle{LimitFields: decide.XRateLimit | decide.Standard},
			TrustedProxies: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")},
		}}
}

// answerFor is what the limiter says to n counters.
func answerFor(words string, n int) store.Answer {
	word, arg, _ := strings.Cut(words, " ")
	switch {
	case arg == "":
		ans := plainAnswer(word)
		for len(ans.Decisions) > 0 && len(ans.Decisions) < n {
			ans.Decisions = append(ans.Decisions, ans.Decisions[0])
		}
		return ans
	case word == "deny":
		ans := answerFor("allow", n)
		if ans.Tightest, _ = strconv.Atoi(arg); ans.Tightest >= n {
			return answerFor("allow", n)
		}
		ans.Granted, ans.Decisions[ans.Tightest] = 0, plainAnswer("deny").Decisions[0]
		return ans
	}
	ans := answerFor("allow", n)
	d, _ := time.ParseDuration(arg)
	last := &ans.Decisions[len(ans.Decisions)-1]
	last.Delay, last.Slot = d, 77
	ans.Tightest = len(ans.Decisions) - 1
	return ans
}

func plainAnswer(word string) store.Answer {
	switch word {
	case "allow":
		return store.Answer{Granted: 1,
			Decisions: []limit.Decision{{Allowed: true, Remaining: 9, Limit: 10, ResetAfter: 400 * time.Millisecond}}}
	case "deny":
		return store.Answer{Decisions: []limit.Decision{{Limit: 10, RetryAfter: 1500 * time.Millisecond,
			ResetAfter: 1500 * time.Millisecond}}}
	case "never":
		return store.Answer{Decisions: []limit.Decision{{Limit: 10, RetryAfter: limit.Never, ResetAfter: time.Second}}}
	case "open":
		return store.Answer{Granted: 1, Mode: store.FailOpen}
	}
	return store.Answer{Mode: store.Closed}
}

func (p *player) play(line string) {
	verb, arg, _ := strings.Cut(line, " ")
	switch verb {
	case "at":
		p.now = p.start.Add(parsed(p, arg, time.ParseDuration))
	case "limit":
		p.limit = arg
	case "no-via":
		p.env.Settings.Via = false
	case "secure":
		p.s.Exchange.Secure = true
	case "trusted":
		p.s.Exchange.Trusted = true
	case "rules":
		set, err := rule.Read(p.bytes(arg), rule.Options{Defers: true, Callbacks: true})
		p.must(err)
		p.policy = p.policy.With(set, "7")
	case "wake":
		p.s.Exchange.HandleWake(p.now)
		p.after()
	case "deferrals":
		p.defers(int64(parsed(p, arg, strconv.Atoi)))
	case "delivery":
		p.env.Delivery, p.env.Added, p.env.Defers = true, p.bytes(arg), false
	case "stored":
		p.s.Exchange.HandleDeferred(p.now, p.stored(arg))
		p.after()
	case "known":
		p.s.Exchange.HandleLookUp(p.now, parsed(p, arg, strconv.ParseBool))
		p.effects()
		p.feed()
	case "rate":
		p.env.Settings.BodyRateMin = int64(parsed(p, arg, strconv.Atoi))
	case "max":
		p.env.Settings.BodyBytesMax = int64(parsed(p, arg, strconv.Atoi))
	case "requests":
		p.env.Settings.RequestsMax = parsed(p, arg, strconv.Atoi)
	case "age":
		p.env.Settings.AgeMax = parsed(p, arg, time.ParseDuration)
		p.s.endBy = p.env.EndOf(p.now)
	case "shed":
		p.env.Overloaded = func(netip.Addr) bool { return true }
	case "shortage":
		p.s.HandleShortage(p.now)
		p.after()
	case "client":
		p.unread = append(p.unread, p.bytes(arg)...)
		p.feed()
	case "decided":
		ans := answerFor(cmp.Or(arg, "allow"), p.counters)
		ans.At = chargedAt
		p.s.Exchange.HandleDecision(p.now, &ans)
		p.effects()
		p.feed()
	case "acquired":
		fmt.Fprintf(&p.log, "taken %v\n", p.s.Exchange.HandleAcquired(p.now, arg == "reused"))
		p.after()
	case "unavailable":
		p.s.Exchange.HandleUnavailable(p.now, p.fault(arg))
		p.after()
	case "overloaded":
		p.s.Exchange.HandleShed(p.now, []byte("d-2"))
		p.after()
	case "waits":
		p.s.Exchange.HandleWaits(p.now)
		fmt.Fprintf(&p.log, "waits until %v\n", p.s.Deadline().Sub(p.start))
	case "buffer":
		p.env.Settings.BufferBytesMax = int64(parsed(p, arg, strconv.Atoi))
	case "streams":
		p.streams = arg != "refuse"
	case "places":
		p.full = arg == "none"
	case "admitted":
		p.s.Exchange.HandleAdmitted(p.now)
		p.after()
	case "exhausted":
		p.s.Exchange.HandleExhausted(p.now, arg == "several", 4*time.Second)
		p.after()
	case "full", "relieved":
		if arg == "client" {
			p.s.HandleClientFull(p.now, verb == "full")
			p.feedUpstream()
			return
		}
		p.s.HandleTargetFull(p.now, verb == "full")
		p.after()
	case "upstream":
		p.waiting = append(p.waiting, p.bytes(arg)...)
		p.feedUpstream()
	case "client-end":
		p.s.HandleClientEnd(p.now, len(p.unread))
		p.after()
	case "upstream-end":
		p.s.HandleUpstreamEnd(p.now, len(p.waiting))
		p.after()
	case "upstream-closed":
		p.s.HandleUpstreamClosed(p.now, map[string]error{"eof": io.EOF, "reset": errors.New("reset")}[arg])
		p.after()
	case "own":
		status, body, _ := strings.Cut(arg, " ")
		p.s.Exchange.HandleOwn(p.now, &exchange.OwnResponse{Status: parsed(p, status, strconv.Atoi),
			Fields: [][2]string{{"Content-Type", "text/plain"}}, Body: p.bytes(body)})
		p.after()
	case "expire":
		p.s.HandleExpired(p.now)
		p.after()
	case "drain":
		p.s.HandleDrain(p.now)
		p.effects()
	case "gone":
		p.s.HandleClosed(p.now)
		p.effects()
	default:
		p.must(fmt.Errorf("unknown command %q", line))
	}
}

// defers has refused requests stored whose bodies have at most so many bytes.
func (p *player) defers(most int64) {
	hosts, _ := callback.ParseHosts("hooks.example.com") // is one
	p.env.Settings.DeferPath, p.env.Settings.DeferBodyMax, p.env.Settings.Callbacks = "/deferred/", most, hosts
	p.env.Defers = true
}

// store logs a request that is to be stored.
func (p *player) store(k *exchange.DeferredRequest) {
	fmt.Fprintf(&p.log, "store for %s, line %q, idempotency key %q, in %v\n", k.Rule.ID, k.Line, k.Key, k.RetryAfter)
	if k.Callback != "" {
		fmt.Fprintf(&p.log, "call back %s\n", k.Callback)
	}
	for line := range bytes.Lines(append(AppendRequestFields(nil, k.Request, ""), k.Body...)) {
		fmt.Fprintf(&p.log, "stored %q\n", line)
	}
}

// stored is what came of storing a request.
func (p *player) stored(outcome string) *deferred.PutResult {
	outcome, state, _ := strings.Cut(outcome, " ")
	for o := deferred.Accepted; o <= deferred.Unstored; o++ {
		if o.String() == outcome {
			due := map[bool]time.Duration{false: 1500 * time.Millisecond, true: 20 * time.Second}[o == deferred.Full]
			s := &deferred.PutResult{Outcome: o, Position: 3, Due: p.now.Add(due), Expires: p.now.Add(time.Hour),
				Durability: "fsync"}
			if state != "" {
				s.State = parsed(p, state, deferred.ParseState)
			}
			if s.State == deferred.Done {
				s.Result = &deferred.Result{Status: 201, Body: []byte("made"), Bytes: 4,
					Head: []byte("POST /o HTTP/1.1\r\nContent-Length: 4\r\nLocation: /o/1\r\n")}
			}
			return s
		}
	}
	p.must(fmt.Errorf("no outcome is called %q", outcome))
	return new(deferred.PutResult)
}

// must keeps the first error of the script.
func (p *player) must(err error) { p.err = cmp.Or(p.err, err) }

// parsed is the value of an argument.
func parsed[T any](p *player, arg string, parse func(string) (T, error)) T {
	v, err := parse(arg)
	p.must(err)
	return v
}

func (p *player) bytes(arg string) []byte { return []byte(parsed(p, arg, strconv.Unquote)) }

func (p *player) fault(name string) exchange.FailureKind {
	for f := range exchange.FailureKind(exchange.FailureKinds) {
		if f.String() == name {
			return f
		}
	}
	p.must(fmt.Errorf("no fault is called %q", name))
	return 0
}

func (p *player) feed() {
	for before := -1; (p.read || before != len(p.unread)) && !p.closed; {
		before, p.read = len(p.unread), false
		n := p.s.HandleClient(p.now, p.unread)
		p.unread = bytes.Clone(p.unread[n:])
		p.effects()
	}
}

// feedUpstream shows the session what the target has sent.
func (p *player) feedUpstream() {
	n := p.s.HandleUpstream(p.now, p.waiting)
	if p.waiting = bytes.Clone(p.waiting[n:]); len(p.waiting) > 0 {
		fmt.Fprintf(&p.log, "of the target unread %q\n", p.waiting)
		if !p.clientFull() {
			p.waiting = nil // it came unasked: the connection is thrown away
		}
	}
	p.after()
}

// after is what the rim does after a call that may have made the session read
// on.
func (p *player) after() {
	p.effects()
	if p.read {
		p.feed()
	}
}

// clientFull reports whether the client takes nothing for the moment.
func (p *player) clientFull() bool {
	full, _ := p.s.Exchange.Full()
	return full
}

// where says what the session waits for.
func (p *player) where() string {
	state := p.s.Exchange.String()
	switch request, _, _ := strings.Cut(strings.TrimPrefix(state, "request "), ","); {
	case p.s.state != stateExchanges:
		return p.s.state.String()
	case strings.Contains(state, "upstream wanted"):
		return "acquiring"
	case p.s.Exchange.Held():
		return "awaiting"
	case p.s.Exchange.Idle():
		return "reading"
	case request == "collecting":
		return "body"
	default:
		return request
	}
}

func (p *player) effects() {
	fx := p.s.Effects(p.now)
	p.read = p.read || fx.Read
	p.told(&fx)
	for line := range bytes.Lines(fx.Client) {
		fmt.Fprintf(&p.log, "to client %q\n", line)
	}
	for line := range bytes.Lines(fx.Upstream) {
		fmt.Fprintf(&p.log, "to target %q\n", line)
	}
	if fx.EndUpstream {
		p.log.WriteString("end of the client to target\n")
	}
	if fx.EndClient {
		p.log.WriteString("end of the target to client\n")
	}
	if fx.Release != exchange.ReleaseNone {
		p.log.WriteString("release " + [...]string{"", "keep", "private", "discard", "end", "abandon"}[fx.Release] + "\n")
	}
	if a := fx.Abandoned; a != nil {
		fmt.Fprintf(&p.log, "the answer to %s is awaited until %v, status %d, reusable %t\n", a.Client, a.By.Sub(p.start),
			a.Status, a.Reusable)
	}
	if fx.Acquire != exchange.AcquireNone {
		p.log.WriteString("acquire " + [...]string{"", "any", "fresh", "other", "cancel"}[fx.Acquire] + "\n")
	}
	if !fx.Wake.IsZero() {
		fmt.Fprintf(&p.log, "%v until %v\n", p.where(), fx.Wake.Sub(p.start))
	}
	if fx.Own != nil {
		fmt.Fprintf(&p.log, "own %q\n", ownBytes(&fx))
	}
	if fx.Close != CloseNone {
		p.closed = true
		p.log.WriteString("close " + [...]string{"", "drained", "linger", "abort"}[fx.Close] + "\n")
	}
	if d := p.s.Deadline(); fx.Acquire != exchange.AcquireNone || len(fx.Client)+len(fx.Upstream) > 0 {
		p.log.WriteString("now " + p.where())
		if !d.IsZero() {
			fmt.Fprintf(&p.log, ", until %v", d.Sub(p.start))
		}
		p.log.WriteString("\n")
	}
	if fx.Stream {
		p.s.Exchange.HandleStream(p.now, p.streams)
		p.effects()
	}
	if fx.Admit {
		p.log.WriteString("asks for a place\n")
		if !p.full {
			p.s.Exchange.HandleAdmitted(p.now)
			p.effects()
		}
	}
}

// told logs what the session tells of decisions and outcomes.
func (p *player) told(fx *Effects) {
	if fx.Store != nil {
		p.store(fx.Store)
	}
	if k := fx.LookUp; k != nil {
		fmt.Fprintf(&p.log, "look up for %s, line %q, idempotency key %q\n", k.Rule.ID, k.Line, k.Key)
	}
	if fx.Matched != nil {
		for _, sh := range fx.Matched.Shadows {
			fmt.Fprintf(&p.log, "shadow %s key %q\n", sh.Counter.Rule, sh.Counter.Key)
		}
	}
	if fx.Refund != nil {
		for _, c := range fx.Refund.Asked {
			if fx.Refund.At != 0 {
				fmt.Fprintf(&p.log, "give back %d of %s key %q at %d\n", c.Cost, c.Counter.Rule, c.Key, fx.Refund.At)
			} else if c.Slot != 0 {
				fmt.Fprintf(&p.log, "leave the queue of %s key %q slot %d\n", c.Counter.Rule, c.Key, c.Slot)
			}
		}
	}
	if fx.Report == nil {
		return
	}
	p.last = *fx.Report
	fmt.Fprintf(&p.log, "report %v %v status=%d", p.last.Method,
		[...]string{"undecided", "forwarded", "rejected", "exempt", "deferred"}[p.last.Decision], p.last.Status)
	if p.last.Fault != exchange.FaultNone {
		fmt.Fprintf(&p.log, " fault=%v", p.last.Fault)
	}
	if p.last.Retried {
		p.log.WriteString(" retried")
	}
	p.log.WriteString("\n")
}
