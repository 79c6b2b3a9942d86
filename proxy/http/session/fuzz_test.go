package session

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"weir/internal/net/http1"
	"weir/internal/net/http1/http1test"
	"weir/proxy/http/exchange"
	"weir/proxy/limit"
	"weir/proxy/rules/decide"
	"weir/proxy/rules/keys"
	"weir/proxy/store"
)

// seedBytesMax keeps the seeds small.
const seedBytesMax = 4 << 10

// orders are some orders of events to begin with: all at once, in pieces, and
// with things going wrong.
var orders = []string{"", "\x40\x06\x42\x40\x42", "\x08\x10\x06\x0a\x12\x08\x0a",
	"\x80\x06\x82\x07\x80\x0e\x0f\x82", "\x80\x05\x0d\x15\x06\x1e\x26\x80\x07\x17"}

// FuzzSession plays bytes of a client and of a target in pieces and in an order
// from the input, and sees that the effects make sense; that no more requests go
// on than a reader finds in the client's bytes as a whole, in that order; and
// that what goes on is one request for net/http too, with nothing behind it, and
// with no word about its origin but the proxy's.
func FuzzSession(f *testing.F) {
	const request, answer = "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	n := 0
	add := func(client, target []byte) {
		if len(client)+len(target) <= seedBytesMax {
			f.Add(client, target, []byte(orders[n%len(orders)]))
			n++
		}
	}
	requests, responses := http1test.Requests(f), http1test.Responses(f)
	for i := range requests {
		if in, err := requests[i].Bytes(); err == nil {
			add(in, []byte(answer))
		}
	}
	for i := range responses {
		if in, err := responses[i].Bytes(); err == nil {
			add([]byte(request), in)
		}
	}
	add([]byte("GET / HTTP/1.1\r\nHost: x\r\nX_Forwarded_For: 1\r\nx-real-ip: 1\r\nConnection: "+
		"X-Forwarded-For\r\n\r\n"), []byte(answer))
	f.Fuzz(func(t *testing.T, client, target, order []byte) {
		p := newGauntlet(t, client, target)
		for _, op := range order[:min(len(order), 256)] {
			p.play(op)
		}
		p.finish()
		p.judge()
	})
}

// A gauntlet is a session between a client and a target that do as the input
// says. The end of every call is a look at the effects.
type gauntlet struct {
	t              *testing.T
	now            time.Time
	env            Env
	s              *pair
	client, target []byte
	arrived, done  int    // of client
	loan           []byte // what was lent to the last call
	came, taken    int    // of target
	later          bool
	limit          string

	asked, waits, held, closed, gone bool
	read                             bool
	outcomes                         int
	tunnel                           bool
	forwarded                        [][]byte // what went to targets, by request
}

func newGauntlet(t *testing.T, client, target []byte) *gauntlet {
	p := &gauntlet{t: t, client: client, target: target, limit: "allow",
		now: time.Date(2026, 1, 19, 16, 30, 0, 0, time.UTC)}
	l, err := limit.NewFixed(10, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	policy := decide.NewPolicy(l)
	p.env = Env{Settings: testSettings(), Env: exchange.Env{Policy: func() *decide.Policy { return policy }, Sheds: true,
		Ask: func(_ time.Time, _ *exchange.Exchange, _ *store.Ask, ans *store.Answer) bool {
			if p.later {
				p.asked = true
				return false
			}
			*ans = answerFor(p.limit, 1)
			return true
		},
		Refused: func(time.Time, *decide.Refusal) []byte { return []byte("d-1") },
	}}
	p.s = newPair(p.now, &p.env, netip.MustParseAddr("192.0.2.7"), false)
	return p
}

// play does what one byte of the order says: the lower bits what, the upper
// ones how much.
func (p *gauntlet) play(op byte) {
	if p.gone {
		return
	}
	p.now = p.now.Add(time.Millisecond)
	n := int(op >> 3)
	switch op & 7 {
	case 0, 1:
		p.arrived = min(len(p.client), p.arrived+n*n+1)
		p.feed()
	case 2, 3:
		p.came = min(len(p.target), p.came+n*n+1)
		p.feedUpstream()
	case 4:
		p.later = n&1 == 1
		p.limit = []string{"allow", "allow", "allow", "deny", "closed", "open"}[n%6]
		p.decide()
	case 5:
		p.full(n)
	case 6:
		p.connect(n)
	case 7:
		p.end(n)
	}
}

func (p *gauntlet) decide() {
	if p.asked {
		p.asked = false
		ans := answerFor(p.limit, 1)
		p.s.Exchange.HandleDecision(p.now, &ans)
		p.after()
	}
}

func (p *gauntlet) full(n int) {
	if n&2 == 0 {
		p.s.HandleClientFull(p.now, n&1 == 1)
		p.feedUpstream()
	} else if p.held {
		p.s.HandleTargetFull(p.now, n&1 == 1)
		p.after()
	}
}

// connect has a connection come, or not.
func (p *gauntlet) connect(n int) {
	if !p.waits {
		return
	}
	p.waits = false
	switch n % 5 {
	case 3:
		if why := exchange.FailureKind(1 + n%(exchange.FailureKinds-1)); why == exchange.FaultShed {
			p.s.Exchange.HandleShed(p.now, []byte("d-2"))
		} else {
			p.s.Exchange.HandleUnavailable(p.now, why)
		}
	case 4:
		p.s.Exchange.HandleExhausted(p.now, n&8 == 8, time.Second)
	default:
		if p.held = p.s.Exchange.HandleAcquired(p.now, n&1 == 1); !p.held {
			p.t.Fatal("a session that waits for a connection does not take it")
		}
		p.forwarded = append(p.forwarded, nil)
	}
	p.after()
}

// end has a deadline pass, or a connection end.
func (p *gauntlet) end(n int) {
	switch {
	case n&7 == 0:
		p.gone = true
		p.s.HandleClosed(p.now)
	case n&7 == 1:
		p.s.HandleDrain(p.now)
	case n&7 < 4 && !p.s.Deadline().IsZero():
		p.now = p.s.Deadline()
		p.s.HandleExpired(p.now)
	case n&7 == 4 && p.s.state == stateTunnel:
		p.s.HandleClientEnd(p.now, 0)
	case n&7 == 5 && p.s.state == stateTunnel:
		p.s.HandleUpstreamEnd(p.now, 0)
	case p.held:
		p.held = false
		p.s.HandleUpstreamClosed(p.now, []error{io.EOF, errors.New("reset")}[n&1])
	}
	p.after()
}

// lend has f called with a copy that is overwritten when the effects were carried out.
func (p *gauntlet) lend(b []byte, f func(time.Time, []byte) int) int {
	loan := bytes.Clone(b)
	n := f(p.now, loan)
	if n < 0 || n > len(b) {
		p.t.Fatalf("of %d bytes %d are done with", len(b), n)
	}
	p.loan = loan
	return n
}

// feed shows the session its unread bytes, as long as it takes some.
func (p *gauntlet) feed() {
	for before := -1; (p.read || before != p.done) && !p.closed && !p.gone; {
		before, p.read = p.done, false
		p.done += p.lend(p.client[p.done:p.arrived], p.s.HandleClient)
		p.effects()
	}
}

func (p *gauntlet) feedUpstream() {
	if p.held && p.came > p.taken {
		p.taken += p.lend(p.target[p.taken:p.came], p.s.HandleUpstream)
		p.after()
	}
}

// after is what the rim does after a call that may have made the session read
// on.
func (p *gauntlet) after() {
	p.effects()
	if p.read {
		p.feed()
	}
}

// effects does what the session wants and sees that it may.
func (p *gauntlet) effects() {
	fx := p.s.Effects(p.now)
	p.read = p.read || fx.Read
	if fx.Report != nil {
		p.outcomes++
	}
	speaks := len(fx.Client) > 0 || fx.Own != nil || fx.EndClient
	waits := fx.Acquire != exchange.AcquireNone && fx.Acquire != exchange.AcquireCancel
	switch {
	case (p.closed || p.gone) && (speaks || len(fx.Upstream) > 0 || waits || fx.Close != CloseNone):
		p.t.Fatalf("behind the end: %+v", fx)
	case !p.held && (len(fx.Upstream) > 0 || fx.EndUpstream || fx.Release != exchange.ReleaseNone):
		p.t.Fatalf("without a connection to a target: %+v", fx)
	case p.held && waits && fx.Release == exchange.ReleaseNone:
		p.t.Fatalf("a second connection is wanted: %+v", fx)
	case fx.Acquire == exchange.AcquireCancel && !p.waits && !p.gone:
		// The rim has been told that there is none, or nobody was asked.
		p.t.Fatalf("a wait is given up that there is not: %+v", fx)
	}
	if n := len(p.forwarded); len(fx.Upstream) > 0 {
		p.forwarded[n-1] = append(p.forwarded[n-1], fx.Upstream...)
	}
	for i := range p.loan {
		p.loan[i] = 0xDD
	}
	p.tunnel = p.tunnel || p.s.state == stateTunnel
	p.held = p.held && fx.Release == exchange.ReleaseNone
	if fx.Close != CloseNone {
		p.closed = true
	}
	if (p.closed || p.gone) && (!p.s.Deadline().IsZero() || p.held) {
		p.t.Fatalf("at the end: held %t, deadline %v", p.held, p.s.Deadline())
	}
	switch {
	case fx.Acquire == exchange.AcquireFresh: // the last request again
		p.forwarded = p.forwarded[:len(p.forwarded)-1]
		p.waits = true
	case fx.Acquire == exchange.AcquireCancel:
		p.waits = false
	case waits:
		p.waits = true
	}
	if fx.Stream {
		p.s.Exchange.HandleStream(p.now, true)
		p.effects()
	}
	if fx.Own != nil {
		p.s.Exchange.HandleOwn(p.now, &exchange.OwnResponse{Status: 200, Body: []byte("own\n")})
		p.after()
	}
}

// finish has everything come that has not, and then time pass, until the
// session ends.
func (p *gauntlet) finish() {
	p.later, p.limit = false, "allow"
	for range 64 {
		if p.closed || p.gone {
			break
		}
		p.play(4 | 2<<3)
		p.arrived, p.came = len(p.client), len(p.target)
		p.s.HandleTargetFull(p.now, false)
		p.s.HandleClientFull(p.now, false)
		p.after()
		p.connect(0)
		p.feed()
		p.feedUpstream()
	}
	for range 64 {
		if p.closed || p.gone || p.s.Deadline().IsZero() {
			break
		}
		p.end(2)
	}
	if !p.closed && !p.gone {
		p.t.Fatalf("the session does not end: it is %v, deadline %v", p.s.state, p.s.Deadline())
	}
	p.gone = true
	p.s.HandleClosed(p.now)
	p.effects()
}

// judge holds what went on against what was sent.
func (p *gauntlet) judge() {
	talk := http1test.Conversation{Refuse: (*http1.Head).Check}
	sent := talk.Read(http1test.Whole(p.client)).Messages
	if p.outcomes > len(sent)+1 {
		p.t.Errorf("%d outcomes of %d requests", p.outcomes, len(sent))
	}
	next := 0
	for i, raw := range p.forwarded {
		if len(raw) == 0 {
			continue
		}
		req := p.oneRequest(raw, i == len(p.forwarded)-1 && p.tunnel)
		if req == nil {
			continue
		}
		for next < len(sent) && !same(&sent[next].Head, req) {
			next++
		}
		if next++; next > len(sent) {
			p.t.Fatalf("request %d of %d that went on is none of the %d sent: %q", i+1, len(p.forwarded), len(sent), raw)
		}
	}
}

// same reports whether req may be what became of the request with head h.
func same(h *http1.Head, req *http.Request) bool {
	target := string(h.Path)
	if h.Query != nil {
		target += "?" + string(h.Query)
	}
	// Absolute-form may have no path: RFC 9112 sections 3.2.1 and 3.2.4.
	return string(h.MethodText) == req.Method &&
		(target == req.RequestURI || "/"+target == req.RequestURI || target == "" && req.RequestURI == "*")
}

// oneRequest reads raw, which must be one request for net/http, if need be
// not whole.
func (p *gauntlet) oneRequest(raw []byte, tunnel bool) *http.Request {
	r := bufio.NewReader(bytes.NewReader(raw))
	req, err := http.ReadRequest(r)
	if err != nil {
		// net/http refuses some targets and hosts that are well-formed: see
		// FuzzRequest of internal/net/http1.
		return nil
	}
	usual, _ := keys.NewForwardingFields(nil)
	for name, values := range req.Header {
		own := name == "X-Forwarded-For" && values[0] == "192.0.2.7" || name == "X-Forwarded-Proto" && values[0] == "http" ||
			name == "X-Forwarded-Host" && values[0] == req.Host
		if usual.Has([]byte(name)) && (!own || len(values) != 1) {
			p.t.Fatalf("the target is told %s: %q", name, values)
		}
	}
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		return req // the client or the target did not stay until its end
	}
	if rest, _ := io.ReadAll(r); len(rest) > 0 && !tunnel {
		p.t.Fatalf("%q goes to the target behind the request %q", rest, raw[:len(raw)-len(rest)])
	}
	return req
}
