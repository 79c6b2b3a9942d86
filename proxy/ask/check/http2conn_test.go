package check

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	xnet "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"weir/internal/data/protowire"
	"weir/internal/net/http2"
	"weir/internal/test/testkit"
	"weir/proxy/ask/envoy"
	"weir/proxy/rules/decide"
	"weir/proxy/rules/descriptor"
	"weir/proxy/store"
	"weir/proxy/store/simredis"
)

// An asker is a connection of HTTP/2 to an HTTP2Conn, whose frames are those of another implementation.
type asker struct {
	t       testing.TB
	now     time.Time
	env     *Env
	m       *HTTP2Conn
	in, out bytes.Buffer // frames for the HTTP2Conn, and from it
	framer  *xnet.Framer
	block   bytes.Buffer
	encoder *hpack.Encoder
	id      uint32
	got     map[uint32]*got
	events  []string // of the connection
	unread  []byte
}

// A got is what an asker was sent on a stream.
type got struct {
	head, trailers map[string]string
	body           []byte
	end            string // END_STREAM, or the code of a reset
}

func (g *got) String() string {
	if g == nil {
		return "nothing"
	}
	text := g.head[":status"]
	for _, fields := range []map[string]string{g.head, g.trailers} {
		if fields["grpc-status"] != "" {
			text += " " + strings.TrimSpace(fields["grpc-status"]+" "+fields["grpc-message"])
		}
	}
	return strings.TrimSpace(text + " " + g.end)
}

// newAsker connects to an HTTP2Conn of env. windows are the initial ones of streams.
func newAsker(t testing.TB, env *Env, window uint32) *asker {
	a := &asker{t: t, now: time.Unix(1e9, 0), env: env, got: make(map[uint32]*got)}
	a.m = NewHTTP2Conn(a.now, env, netip.MustParseAddr("192.0.2.9"), false, false)
	a.framer, a.encoder = xnet.NewFramer(&a.in, &a.out), hpack.NewEncoder(&a.block)
	a.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	a.in.WriteString(xnet.ClientPreface)
	a.check(a.framer.WriteSettings(xnet.Setting{ID: xnet.SettingInitialWindowSize, Val: window}))
	a.play()
	return a
}

func (a *asker) check(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

// head sends the head of a request, whose other fields are pairs of a name and a value.
func (a *asker) head(end bool, method, path string, fields ...string) uint32 {
	a.block.Reset()
	all := append([]string{":method", method, ":scheme", "http", ":path", path, ":authority", "weir"}, fields...)
	for i := 0; i < len(all); i += 2 {
		a.check(a.encoder.WriteField(hpack.HeaderField{Name: all[i], Value: all[i+1]}))
	}
	a.id += 1 + min(a.id, 1)
	a.check(a.framer.WriteHeaders(xnet.HeadersFrameParam{StreamID: a.id, BlockFragment: a.block.Bytes(), EndStream: end,
		EndHeaders: true}))
	return a.id
}

// post sends a request with a body.
func (a *asker) post(path string, body []byte, fields ...string) uint32 {
	id := a.head(false, "POST", path, fields...)
	a.data(id, body)
	return id
}

// data sends a body, in frames that are always allowed.
func (a *asker) data(id uint32, body []byte) {
	for len(body) > 16<<10 {
		a.check(a.framer.WriteData(id, false, body[:16<<10]))
		body = body[16<<10:]
	}
	a.check(a.framer.WriteData(id, true, body))
}

// call makes a call with a message.
func (a *asker) call(method string, message []byte, fields ...string) uint32 {
	return a.post(method, endMessage(append(beginMessage(nil), message...)), append([]string{"te", "trailers",
		"content-type", "application/grpc"}, fields...)...)
}

// play has the HTTP2Conn read what was sent, and reads what it sends.
func (a *asker) play() { a.playPart(a.in.Len()) }

// playPart is like play, for the first n bytes of what was sent.
func (a *asker) playPart(n int) {
	a.unread = append(a.unread, a.in.Next(n)...)
	for more := true; more; more = a.m.Full() {
		a.unread = a.unread[a.m.HandleData(a.now, a.unread):]
		a.read()
	}
}

// read reads what the HTTP2Conn has sent.
func (a *asker) read() {
	a.t.Helper()
	a.m.Control()
	a.out.Write(a.env.Out)
	a.env.Reset()
	for a.out.Len() > 0 {
		frame, err := a.framer.ReadFrame()
		a.check(err)
		id := frame.Header().StreamID
		if id > 0 && a.got[id] == nil {
			a.got[id] = new(got)
		}
		switch f := frame.(type) {
		case *xnet.MetaHeadersFrame:
			fields := make(map[string]string)
			for _, one := range f.Fields {
				fields[one.Name] = one.Value
			}
			if a.got[id].head == nil {
				a.got[id].head = fields
			} else {
				a.got[id].trailers = fields
			}
		case *xnet.DataFrame:
			a.got[id].body = append(a.got[id].body, f.Data()...)
		case *xnet.RSTStreamFrame:
			a.got[id].end = strings.TrimSpace(a.got[id].end + " " + f.ErrCode.String())
		case *xnet.GoAwayFrame:
			a.events = append(a.events, fmt.Sprintf("GOAWAY %v", f.ErrCode))
		case *xnet.PingFrame:
			a.events = append(a.events, "PING")
		}
		if frame.Header().Flags.Has(xnet.FlagDataEndStream) && id > 0 {
			a.got[id].end = "END_STREAM"
		}
	}
}

// expire lets time pass until the HTTP2Conn's deadline is due, which must be that long after now.
func (a *asker) expire(after time.Duration) {
	a.t.Helper()
	if at := a.now.Add(after); !a.m.Deadline().Equal(at) {
		a.t.Fatalf("the deadline is after %v, want %v", a.m.Deadline().Sub(a.now), after)
	}
	a.now = a.now.Add(after)
	a.m.HandleExpired(a.now)
	a.read()
}

// wants compares what was sent on a stream.
func (a *asker) wants(id uint32, want string) {
	a.t.Helper()
	if have := a.got[id].String(); have != want {
		a.t.Errorf("stream %d: %s, want %s", id, have, want)
	}
}

const limitMethod = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"

// about is a request about one user.
func about(user string) []byte {
	return protowire.AppendMessage(protowire.AppendText(nil, 1, "shop"), 2, user, func(dst []byte, user string) []byte {
		return protowire.AppendMessage(dst, 1, user, func(dst []byte, user string) []byte {
			return protowire.AppendText(protowire.AppendText(dst, 1, "user"), 2, user)
		})
	})
}

// limiting returns the Env of a port with a limit of 2 for each user.
func limiting(t testing.TB) *Env {
	s := testkit.Must(simredis.NewStore(simredis.Config{}))(t)
	t.Cleanup(s.Close)
	lane := s.NewLane(func(func(time.Time)) {})
	t.Cleanup(lane.Close)
	domains := testkit.Must(descriptor.Read([]descriptor.File{{Name: "shop.yaml", Text: []byte("domain: shop\n" +
		"descriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 2}},\n" +
		"  {key: user, value: many, rate_limit: {unit: year, requests_per_unit: 4000000000}}]")}}, false))(t)
	series, id := new(envoy.DescriptorCounts), []byte("id")
	counts := &envoy.RequestCounts{Series: func(string, []byte) *envoy.DescriptorCounts { return series },
		NotFound: func([]byte, int) {}}
	docs := &Documents{Marks: []byte("{}"), Named: map[string]store.Document{
		"d": {Version: 1, Body: bytes.Repeat([]byte("d"), 300_000)}}}
	env := &Env{
		Access: &AccessPolicy{Open: true}, Ask: lane.Ask, Refund: lane.Refund, Mode: func() store.Mode { return store.Exact },
		Documents: func() *Documents { return docs }, EditTimeout: time.Second,
		RateLimit: &RateLimitService{Settings: envoy.Settings{AllOrNothing: true, NearRatio: .8}, Counts: counts,
			Domains: func() *descriptor.Domains { return domains }, Failed: func(bool) {}, Took: func(time.Duration) {},
			Apart: func() {}},
		Trusted: func(netip.Addr) bool { return false }, Undescribed: func(time.Time, string) {},
		Refused: func(time.Time, *decide.Refusal) []byte { return id },
		Answers: decide.Responder{Style: new(decide.RefusalStyle)}, Healthy: func() bool { return true },
		Count: func(API, int, Protocol) {}, EndOf: func(time.Time) time.Time { return time.Time{} }, Cut: func() {},
		Answered: func(now time.Time, s *Session) { s.Owner.(*HTTP2Conn).HandleAnswered(now, s) },
	}
	policy := granting(t).Policy
	env.Policy = policy
	return env
}

// Requests are answered over HTTP/2 as over HTTP/1.1, and together as one by one, also if the store answers later.
func TestMuxAnswersAsSession(t *testing.T) {
	atOnce := func(*Env) *[]func(time.Time) { return new([]func(time.Time)) }
	t.Run("at once", func(t *testing.T) { muxAnswersAsSession(t, atOnce) })
	t.Run("later", func(t *testing.T) { muxAnswersAsSession(t, later) })
}

func muxAnswersAsSession(t *testing.T, defers func(*Env) *[]func(time.Time)) {
	user := `{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"%s"}]}]}`
	type request struct {
		method, path, body string
		fields             []string
	}
	requests := []request{
		{"GET", "/healthcheck", "", nil}, {"HEAD", "/healthcheck", "", nil}, {"GET", "/none", "", nil},
		{"POST", "/none", "x", nil}, {"GET", "/v1/marks", "", nil}, {"GET", "/v1/documents/d", "", nil},
		{"GET", "/v1/documents/e", "", nil}, {"POST", "/json", "{}", nil}, {"POST", "/json", fmt.Sprintf(user, "a"), nil},
		{"POST", "/json", fmt.Sprintf(user, "a"), nil}, {"POST", "/json", fmt.Sprintf(user, "a"), nil},
		{"POST", "/json", strings.Repeat("x", jsonBytesMax+1), nil}, {"POST", "/json", "", nil}, {"GET", "/json", "", nil},
		{"POST", limitMethod, "x", nil},
		{"GET", "/check/path/a?b", "", []string{"x-forwarded-for", "192.0.2.1"}},
		{"POST", "/check/path/a", "body", []string{"x-forwarded-for", "192.0.2.1"}},
		{"GET", "/check/path/a", "", nil}, {"GET", "/check/path/a", "", []string{"x-large", strings.Repeat("a", 20_000)}},
		{"GET", "/check/original", "", []string{"x-original-method", "GET", "x-original-uri", "/a", "x-original-host", "h"}},
		{"POST", "/v1/decide", "x", []string{"expect", "other"}}, {"POST", "/v1/decide", "x", nil},
	}
	one, many := limiting(t), newAsker(t, limiting(t), 1<<20)
	many.m.Owner, one.Answered = many.m, func(time.Time, *Session) {}
	answersOne, answersMany := defers(one), defers(many.env)
	many.check(many.framer.WriteWindowUpdate(0, 1<<20))
	ids := make([]uint32, len(requests))
	for i, r := range requests {
		if ids[i] = many.head(r.body == "", r.method, r.path, r.fields...); r.body != "" {
			many.data(ids[i], []byte(r.body))
		}
	}
	many.play()
	for _, answer := range *answersMany {
		answer(many.now)
	}
	many.read()
	for i, r := range requests {
		text := r.method + " " + r.path + " HTTP/1.1\r\nHost: weir\r\n"
		for k := 0; k < len(r.fields); k += 2 {
			text += r.fields[k] + ": " + r.fields[k+1] + "\r\n"
		}
		if r.body != "" {
			text += fmt.Sprintf("Content-Length: %d\r\n", len(r.body))
		}
		New(many.now, one, netip.MustParseAddr("192.0.2.9"), false).HandleData(many.now, []byte(text+"\r\n"+r.body))
		for _, answer := range *answersOne {
			answer(many.now)
		}
		*answersOne = nil
		head, body, _ := strings.Cut(string(one.Out), "\r\n\r\n")
		one.Reset()
		g := many.got[ids[i]]
		if g == nil {
			g = new(got)
		}
		if !strings.HasPrefix(head, "HTTP/1.1 "+g.head[":status"]) || string(g.body) != body {
			t.Errorf("%s %.40s: %v %.200q; by HTTP/1.1 %.200q %.200q", r.method, r.path, g, g.body, head, body)
			continue
		}
		for name, value := range g.head {
			if name[0] != ':' && !strings.Contains(strings.ToLower(head), "\r\n"+name+": "+strings.ToLower(value)) {
				t.Errorf("%s %.40s: %s: %s is not in %s", r.method, r.path, name, value, head)
			}
		}
	}
	if many.m.held != 0 || len(many.m.streams) != 0 {
		t.Errorf("%d bytes and %d streams are kept", many.m.held, len(many.m.streams))
	}
}

// Calls are answered with statuses of gRPC.
func TestCalls(t *testing.T) {
	a := newAsker(t, limiting(t), 1<<16)
	tooMany := protowire.AppendText(nil, 1, "shop")
	for range 257 {
		tooMany = protowire.AppendBytes(tooMany, 2, "")
	}
	for _, test := range []struct {
		id   uint32
		want string
	}{
		{a.call(limitMethod, about("a")), "200 0 END_STREAM"},
		{a.call(limitMethod, nil), "200 3 domain: rate limit domain must not be empty END_STREAM"},
		{a.call(limitMethod, protowire.AppendText(nil, 1, "shop")),
			"200 3 descriptors: rate limit descriptor list must not be empty END_STREAM"},
		{a.call(limitMethod, tooMany), "200 3 descriptors: must be at most 256 END_STREAM"},
		{a.call(limitMethod, []byte("\x0a\x01\xff")), "200 3 domain: must be UTF-8 END_STREAM"},
		{a.call(limitMethod, []byte("\x12\x04\x0a\x02\x0a\x09")), "200 3 descriptors[0].entries[0]: must be a protobuf " +
			"message; a value that ends before its length at byte 2 is malformed END_STREAM"},
		{a.call("/envoy.service.ratelimit.v3.RateLimitService/Other", about("a")), "200 12 not found END_STREAM NO_ERROR"},
		{a.call("/json", about("a")), "200 12 not found END_STREAM NO_ERROR"},
		{a.call(limitMethod, bytes.Repeat([]byte("\x33"), jsonBytesMax)), "200 3 must be a protobuf message; the type of a " +
			"field at byte 33 is malformed END_STREAM"},
		{a.call(limitMethod, bytes.Repeat([]byte("x"), jsonBytesMax+1)),
			"200 8 the body must be at most 65541 bytes END_STREAM"},
		{a.post(limitMethod, nil, "content-type", "application/grpc"),
			"200 13 the request must have one message, has none END_STREAM"},
		{a.head(true, "POST", limitMethod, "content-type", "application/grpc"), "200 13 the body is missing END_STREAM"},
		{a.post(limitMethod, []byte("\x00\x00\x00\x00\x01"), "content-type", "application/grpc+proto"),
			"200 13 the request must have one message: 0 bytes follow a head that says 1 END_STREAM"},
		{a.post(limitMethod, []byte("\x01\x00\x00\x00\x00"), "content-type", "application/grpc", "grpc-encoding", "gzip"),
			"200 12 the message must not be compressed END_STREAM"},
		{a.post(limitMethod, []byte("\x01\x00\x00\x00\x00"), "content-type", "application/grpc"),
			"200 13 the message must not be compressed without grpc-encoding END_STREAM"},
		{a.post(limitMethod, nil, "content-type", "application/grpc-web"), "415 END_STREAM NO_ERROR"},
	} {
		a.play()
		a.wants(test.id, test.want)
		accepts := a.got[test.id].head["grpc-accept-encoding"]
		if strings.Contains(test.want, " 12 the message") != (accepts == "identity") {
			t.Errorf("%s: Grpc-Accept-Encoding is %q", test.want, accepts)
		}
	}
	a.env.Access = &AccessPolicy{Token: "secret"}
	denied := a.call(limitMethod, about("a"))
	admitted := a.call(limitMethod, about("a"), "authorization", "Bearer secret")
	a.play()
	a.wants(denied, "200 16 needs Authorization: Bearer with the DECISION_TOKEN of this proxy, or a certificate that its "+
		"DECISION_TLS_CLIENT_CA trusts END_STREAM NO_ERROR")
	a.wants(admitted, "200 0 END_STREAM")
	if got := a.got[admitted]; got.head["content-type"] != "application/grpc" || len(got.body) < messageHead ||
		int(binary.BigEndian.Uint32(got.body[1:])) != len(got.body)-messageHead {
		t.Errorf("%v, %q", got.head, got.body)
	}
}

// A call that the store does not decide is unavailable, or admitted in mode open.
func TestCallsWithoutStore(t *testing.T) {
	env := limiting(t)
	mode := store.Closed
	env.Ask = func(_ time.Time, _ *store.Ask, ans *store.Answer, _ store.Done) bool {
		*ans = store.Answer{Mode: mode}
		return true
	}
	edits := 0
	env.Edit = func(time.Time, *Session, *Edit) bool { edits++; return edits < 3 } // without an answer
	a := newAsker(t, env, 1<<16)
	a.m.Owner = a.m
	closed := a.call(limitMethod, about("a"))
	a.play()
	mode = store.FailOpen
	open := a.call(limitMethod, about("a"))
	late := a.call(limitMethod, givesBack())
	lateForCaller := a.call(limitMethod, givesBack(), "grpc-timeout", "500m")
	tooMany := a.call(limitMethod, givesBack())
	a.play()
	a.expire(env.EditTimeout / 2)
	a.expire(env.EditTimeout / 2)
	for id, want := range map[uint32]string{
		closed: "200 14 the rate limiter's store is unavailable END_STREAM", open: "200 0 END_STREAM",
		late:          "200 14 the rate limiter's store has not answered in time END_STREAM",
		lateForCaller: "200 4 the rate limiter's store has not answered in time END_STREAM",
		tooMany:       "200 14 too many edits are waiting END_STREAM",
	} {
		a.wants(id, want)
	}
}

// givesBack is a request with a descriptor with isNegativeHits.
func givesBack() []byte {
	return protowire.AppendBytes(protowire.AppendText(nil, 1, "shop"), 2,
		protowire.AppendNumber(protowire.AppendBytes(nil, 1, protowire.AppendText(nil, 1, "user")), 4, 1))
}

// later makes the Env's store answer when answers, in the order of the asks and edits, are called.
func later(env *Env) (answers *[]func(now time.Time)) {
	ask := env.Ask
	answers = new([]func(time.Time))
	env.Ask = func(now time.Time, asked *store.Ask, _ *store.Answer, done store.Done) bool {
		var ans store.Answer
		ask(now, asked, &ans, nil)
		*answers = append(*answers, func(now time.Time) { done(now, &ans) })
		return false
	}
	env.Edit = func(_ time.Time, s *Session, e *Edit) bool {
		*answers = append(*answers, func(now time.Time) {
			if s.HandleEdited(now, e, true, nil) {
				env.Answered(now, s)
			}
		})
		return true
	}
	return answers
}

// A call waits for the store as long as its caller does.
func TestCallDeadline(t *testing.T) {
	env := limiting(t)
	answers := later(env)
	a := newAsker(t, env, 1<<16)
	a.m.Owner = a.m
	late := a.call(limitMethod, about("a"), "grpc-timeout", "20m")
	inTime := a.call(limitMethod, about("a"), "grpc-timeout", "1S")
	a.play()
	a.expire(20 * time.Millisecond)
	a.wants(late, "200 4 the rate limiter's store has not answered in time END_STREAM")
	a.wants(inTime, "nothing")
	if a.m.working != 1 {
		t.Errorf("%d streams count as open, want 1", a.m.working)
	}
	for _, answer := range *answers {
		answer(a.now)
	}
	a.read()
	a.wants(inTime, "200 0 END_STREAM")
	if a.m.working != 0 || len(a.m.streams) != 0 {
		t.Errorf("%d and %d streams count as open", a.m.working, len(a.m.streams))
	}
	slow := a.head(false, "POST", limitMethod, "content-type", "application/grpc", "grpc-timeout", "1S")
	a.play()
	a.now = a.now.Add(time.Second)
	a.m.HandleExpired(a.now)
	a.read()
	a.wants(slow, "200 4 the request did not arrive in time END_STREAM NO_ERROR")
}

// Streams that are reset count as open until the store has answered, and what it answers then changes no other stream.
func TestResetStreamsCountAsOpen(t *testing.T) {
	env := limiting(t)
	env.HTTP2.Streams = 4
	answers := later(env)
	a := newAsker(t, env, 1<<16)
	a.m.Owner = a.m
	for range 2 {
		a.check(a.framer.WriteRSTStream(a.call(limitMethod, about("a")), xnet.ErrCodeCancel))
		a.check(a.framer.WriteRSTStream(a.call(limitMethod, givesBack()), xnet.ErrCodeCancel))
	}
	refused := a.call(limitMethod, about("b"))
	a.play()
	a.wants(refused, "REFUSED_STREAM")
	first := *answers
	*answers = nil
	for _, answer := range first {
		answer(a.now)
	}
	next := a.call(limitMethod, about("b"))
	a.play()
	a.wants(next, "nothing")
	(*answers)[0](a.now)
	a.read()
	a.wants(next, "200 0 END_STREAM")
}

// What is forgotten does not make room for other streams while its own one still sends its answer.
func TestStaleAnswerOfOpenStream(t *testing.T) {
	env := limiting(t)
	answers := later(env)
	a := newAsker(t, env, 0)
	a.m.Owner = a.m
	late := a.post("/json", []byte(`{"domain":"shop","descriptors":[{"entries":[{"key":"user"}],"isNegativeHits":true}]}`))
	a.play()
	a.expire(env.EditTimeout)
	a.wants(late, "500")
	(*answers)[0](a.now)
	if a.read(); a.m.working != 0 || len(a.m.streams) != 1 {
		t.Errorf("%d streams that work, %d that are open", a.m.working, len(a.m.streams))
	}
	a.check(a.framer.WriteWindowUpdate(late, 1000))
	a.play()
	a.wants(late, "500 END_STREAM")
}

// An answer for which the asker makes no room is kept, up to a bound and for a time, and hurts no other stream.
func TestNoRoom(t *testing.T) {
	env := limiting(t)
	cuts := 0
	env.Cut = func() { cuts++ }
	a := newAsker(t, env, 1000)
	first := a.head(true, "GET", "/v1/documents/d")
	a.play()
	a.wants(first, "200")
	a.check(a.framer.WriteWindowUpdate(first, 1<<20))
	a.check(a.framer.WriteWindowUpdate(0, 1<<20))
	a.play()
	a.wants(first, "200 END_STREAM")
	if n := len(a.got[first].body); n != 300_000 || a.m.held != 0 {
		t.Errorf("%d bytes are sent, %d are kept", n, a.m.held)
	}
	const fit = http2HeldMax / (300_000 - 1000)
	var ids []uint32
	for range fit + 1 {
		ids = append(ids, a.head(true, "GET", "/v1/documents/d"))
	}
	call := a.call(limitMethod, about("a"))
	a.play()
	a.wants(call, "200 0 END_STREAM")
	a.wants(ids[fit-1], "200")
	a.wants(ids[fit], "200 ENHANCE_YOUR_CALM")
	if cuts != 1 {
		t.Errorf("%d streams are cut, want 1", cuts)
	}
	a.check(a.framer.WriteWindowUpdate(ids[0], 1000))
	a.now = a.now.Add(times.Body - 1)
	a.play()
	a.m.HandleExpired(a.now)
	a.now = a.now.Add(1)
	a.m.HandleExpired(a.now)
	a.read()
	a.wants(ids[0], "200")
	a.wants(ids[1], "200 ENHANCE_YOUR_CALM")
	a.now = a.now.Add(times.Body)
	a.m.HandleExpired(a.now)
	a.read()
	a.wants(ids[0], "200 ENHANCE_YOUR_CALM")
	if a.m.held != 0 {
		t.Errorf("%d bytes are kept", a.m.held)
	}
}

// An asker that makes room for single bytes does not have the whole answer moved for each, nor kept without end.
func TestRoomForBytes(t *testing.T) {
	const all, window = 300_000, 1000
	a := newAsker(t, limiting(t), window)
	id := a.head(true, "GET", "/v1/documents/d")
	a.play()
	began, st := a.now, &a.m.find(id).stream
	for moved := 0; ; a.now = a.now.Add(times.Body - 1) {
		if a.m.HandleExpired(a.now); len(a.m.streams) == 0 {
			break
		}
		if a.now.Sub(began) > queuedMax {
			t.Fatal("the answer is kept for ever")
		}
		first := st.left()[1:]
		a.check(a.framer.WriteWindowUpdate(id, 1))
		a.play()
		if &st.left()[0] != &first[0] {
			moved++
		}
		if moved > 0 || len(st.left()) != len(first) {
			t.Fatalf("%d times moved, %d bytes are left, want %d", moved, len(st.left()), len(first))
		}
	}
	a.read()
	a.wants(id, "200 ENHANCE_YOUR_CALM")
	id = a.head(true, "GET", "/v1/documents/d")
	a.check(a.framer.WriteWindowUpdate(0, 1<<20))
	a.play()
	st = &a.m.find(id).stream
	a.check(a.framer.WriteWindowUpdate(id, all*2/3))
	a.play()
	if have, want := len(st.queue), all-window-all*2/3; have != want {
		t.Errorf("%d bytes are kept, want %d", have, want)
	}
	a.check(a.framer.WriteWindowUpdate(id, all))
	a.play()
	a.wants(id, "200 END_STREAM")
	if got := string(a.got[id].body); got != strings.Repeat("d", all) || a.m.held != 0 {
		t.Errorf("%d bytes are sent, %d are kept", len(got), a.m.held)
	}
}

// A connection that is too old, or idle, ends after two GOAWAY, and no request is lost.
func TestAge(t *testing.T) {
	const age, grace = time.Hour, time.Minute
	for _, test := range []struct {
		name    string
		pong    bool // the asker answers the PING
		watches bool // and has a stream that would not end
	}{{"answers", true, false}, {"does not answer", false, false}, {"watches", true, true}} {
		env := limiting(t)
		env.EndOf = func(now time.Time) time.Time { return now.Add(age) }
		env.AgeGrace = grace
		answers := later(env)
		a := newAsker(t, env, 1<<16)
		a.m.Owner = a.m
		a.now = a.now.Add(age - time.Second)
		busy := a.call(limitMethod, about("a"))
		watch := busy
		if test.watches {
			watch = a.call("/grpc.health.v1.Health/Watch", nil)
		}
		a.play()
		a.now = a.now.Add(time.Second)
		a.m.HandleExpired(a.now)
		last := a.call(limitMethod, about("b")) // before it knows
		a.play()
		if got := strings.Join(a.events, ", "); got != "GOAWAY NO_ERROR, PING" {
			t.Errorf("%s: %s", test.name, got)
		}
		if test.pong {
			a.check(a.framer.WritePing(true, [8]byte{}))
			a.play()
		} else {
			a.expire(time.Second)
		}
		if got := strings.Join(a.events, ", "); got != "GOAWAY NO_ERROR, PING, GOAWAY NO_ERROR" || a.m.Ended() {
			t.Errorf("%s: %s", test.name, got)
		}
		if test.watches {
			a.wants(watch, "200 14 the connection or the time of the call ends END_STREAM")
		}
		(*answers)[1](a.now)
		a.read()
		a.wants(last, "200 0 END_STREAM")
		if a.m.Ended() {
			t.Errorf("%s: it ends before its streams", test.name)
		}
		if test.pong {
			(*answers)[0](a.now)
			a.read()
			a.wants(busy, "200 0 END_STREAM")
		} else {
			a.now = a.now.Add(grace)
			a.m.HandleExpired(a.now)
		}
		if !a.m.Ended() {
			t.Errorf("%s: it does not end", test.name)
		}
	}
	a := newAsker(t, limiting(t), 1<<16)
	a.expire(times.Head) // which is nothing, since no frame is incomplete
	a.expire(http2IdleTimeout - times.Head)
	a.expire(time.Second)
	if got := strings.Join(a.events, ", "); got != "GOAWAY NO_ERROR, PING, GOAWAY NO_ERROR" || !a.m.Ended() {
		t.Errorf("idle: %s", got)
	}
}

// A frame must be complete in time.
func TestIncompleteFrame(t *testing.T) {
	a := newAsker(t, limiting(t), 1<<16)
	a.now = a.now.Add(time.Minute)
	a.m.HandleExpired(a.now)
	a.in.WriteString("\x00\x00\x08\x06")
	a.play()
	a.expire(times.Head)
	if got := strings.Join(a.events, ", "); got != "GOAWAY ENHANCE_YOUR_CALM" || !a.m.Ended() {
		t.Errorf("%s", got)
	}
}

// The health service reports the port's health, and its changes.
func TestHealth(t *testing.T) {
	env := limiting(t)
	healthy := true
	env.Healthy = func() bool { return healthy }
	env.Access = &AccessPolicy{Token: "secret"} // which health needs not
	a := newAsker(t, env, 1<<16)
	const check, watch = "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"
	service := func(name string) []byte { return protowire.AppendBytes(nil, 1, name) }
	for _, test := range []struct {
		healthy bool
		method  string
		service string
		want    string
		body    string
	}{
		{true, check, "", "200 0 END_STREAM", "\x08\x01"},
		{true, check, "ratelimit", "200 0 END_STREAM", "\x08\x01"},
		{false, check, "", "200 0 END_STREAM", "\x08\x02"},
		{true, check, "other", `200 5 the service must be "ratelimit" or empty END_STREAM`, ""},
		{true, check, "\xff", "200 3 service: must be UTF-8 END_STREAM", ""},
		{true, watch, "\xff", "200 3 service: must be UTF-8 END_STREAM", ""},
		{true, check, strings.Repeat("x", serviceBytesMax), "200 8 the body must be at most 1029 bytes END_STREAM", ""},
		{true, watch, "other", "200", "\x08\x03"},
		{true, watch, "ratelimit", "200", "\x08\x01"},
	} {
		healthy = test.healthy
		id := a.call(test.method, service(test.service))
		a.play()
		a.wants(id, test.want)
		if got := a.got[id].body; len(got) > 0 && string(got[messageHead:]) != test.body {
			t.Errorf("%s %q: %q", test.method, test.service, got)
		}
	}
	told := func() string { return fmt.Sprintf("%q", a.got[a.id].body) }
	const up, down = `\x00\x00\x00\x00\x02\b\x01`, `\x00\x00\x00\x00\x02\b\x02`
	a.expire(watchPause)
	if healthy = false; told() != `"`+up+`"` {
		t.Errorf("without a change: %s", told())
	}
	a.expire(watchPause)
	if told() != `"`+up+down+`"` {
		t.Errorf("after one: %s", told())
	}
	healthy = true
	a.m.HandleDrain(a.now)
	a.read()
	if told() != `"`+up+down+up+`"` {
		t.Errorf("at once when draining: %s", told())
	}
	soon := newAsker(t, env, 1<<16)
	soon.call(watch, nil, "grpc-timeout", "1500m")
	soon.play()
	soon.expire(watchPause)
	soon.expire(watchPause / 2)
	soon.wants(soon.id, "200 4 the connection or the time of the call ends END_STREAM")
	soon.call(watch, nil, "grpc-timeout", "1S")
	soon.play()
	soon.now = soon.now.Add(time.Second)
	soon.m.HandleDrain(soon.now)
	soon.read()
	soon.wants(soon.id, "200 4 the connection or the time of the call ends END_STREAM")
	if n := len(soon.m.streams); n != 0 {
		t.Errorf("%d streams are open after draining", n)
	}
}

// A client that expects 100 (Continue) gets it.
func TestMuxContinue(t *testing.T) {
	a := newAsker(t, limiting(t), 1<<16)
	id := a.head(false, "POST", "/json", "expect", "100-continue")
	a.play()
	a.wants(id, "100")
	a.data(id, []byte("{}"))
	a.play()
	if status := a.got[id].trailers[":status"]; status != "400" {
		t.Errorf("then %q", status)
	}
}

// Whatever askers do, and in whatever order the store answers: each stream is answered once or was reset, bounds hold,
// and nothing is kept.
func TestMuxLaw(t *testing.T) {
	const user = `{"domain":"shop","descriptors":[{"entries":[{"key":"user"}],"isNegativeHits":true},` +
		`{"entries":[{"key":"user","value":"0"}]}]}`
	ends := []string{"END_STREAM", "END_STREAM NO_ERROR", "REFUSED_STREAM", "ENHANCE_YOUR_CALM"}
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 40))
		env := limiting(t)
		env.HTTP2 = http2.Limits{Streams: 8, GlitchBurst: -1}
		answers := later(env)
		a := newAsker(t, env, uint32(r.IntN(3)*1000))
		a.m.Owner = a.m
		reset := make(map[uint32]bool)
		for range 100 {
			switch r.IntN(9) {
			case 0, 1, 2:
				a.call(limitMethod, about(fmt.Sprint(r.IntN(3))), "grpc-timeout", fmt.Sprint(1+r.IntN(3), "S"))
			case 3:
				a.call(limitMethod, givesBack(), "grpc-timeout", fmt.Sprint(1+r.IntN(3), "S"))
				a.post("/json", []byte(user))
			case 4:
				a.head(true, "GET", "/v1/documents/d")
			case 5:
				if a.id > 0 {
					id := 1 + 2*uint32(r.IntN(int(a.id+1)/2))
					a.check(a.framer.WriteRSTStream(id, xnet.ErrCodeCancel))
					reset[id] = true
				}
			case 6:
				a.check(a.framer.WriteWindowUpdate(0, 100_000))
				if a.id > 0 {
					a.check(a.framer.WriteWindowUpdate(1+2*uint32(r.IntN(int(a.id+1)/2)), 1000))
				}
			case 7:
				a.now = a.now.Add(time.Duration(r.IntN(1000)) * time.Millisecond)
				a.m.HandleExpired(a.now)
			default:
				if n := len(*answers); n > 0 {
					i := r.IntN(n)
					answer := (*answers)[i]
					*answers = slices.Delete(*answers, i, i+1)
					answer(a.now)
				}
			}
			if a.playPart(r.IntN(a.in.Len() + 1)); len(a.m.streams)+a.m.working > 8 ||
				a.m.working < 0 || a.m.held < 0 || a.m.held > http2HeldMax {
				t.Fatalf("seed %d: %d streams, %d that work, %d bytes", seed, len(a.m.streams), a.m.working, a.m.held)
			}
		}
		a.play()
		for len(*answers) > 0 {
			answer := (*answers)[0]
			*answers = (*answers)[1:]
			answer(a.now)
		}
		a.read()
		for range 8 { // those that are cut make room for others
			a.now = a.now.Add(times.Body)
			a.m.HandleExpired(a.now)
			a.read()
		}
		if len(a.m.streams)+a.m.working+a.m.held != 0 || a.m.Ended() {
			t.Fatalf("seed %d: %d streams, %d that work, %d bytes are left; ended: %t", seed, len(a.m.streams), a.m.working,
				a.m.held, a.m.Ended())
		}
		for id := uint32(1); id <= a.id; id += 2 {
			if g := a.got[id]; !reset[id] && (g == nil || !slices.Contains(ends, g.end)) {
				t.Fatalf("seed %d, stream %d: %v", seed, id, g)
			}
		}
	}
}

// A caller is a connection over which the same call is made again and again.
type caller struct {
	*asker
	frames []byte
}

func newCaller(t testing.TB, user string) *caller {
	c := &caller{asker: newAsker(t, limiting(t), 1<<30)}
	for range 2 { // the second time fields are in the table of the decoder
		c.in.Reset()
		c.call(limitMethod, about(user))
		c.frames = bytes.Clone(c.in.Bytes())
		c.play()
	}
	c.check(c.framer.WriteWindowUpdate(0, 1<<30))
	c.play()
	return c
}

// again makes the call on the next stream.
func (c *caller) again() {
	c.id += 2
	second := 9 + int(c.frames[1])<<8 + int(c.frames[2])
	binary.BigEndian.PutUint32(c.frames[5:], c.id)
	binary.BigEndian.PutUint32(c.frames[second+5:], c.id)
	if c.m.HandleData(c.now, c.frames) != len(c.frames) || len(c.env.Out) < 40 || len(c.m.streams) != 0 {
		c.t.Fatalf("%q", c.env.Out)
	}
	c.env.Reset()
}

// A call with indexed fields allocates nothing.
func TestCallAllocatesNothing(t *testing.T) {
	for _, user := range []string{"many", "refused"} {
		c := newCaller(t, user)
		c.again()
		if n := testing.AllocsPerRun(1000, c.again); n != 0 {
			t.Errorf("%s: %v allocations", user, n)
		}
	}
}

func BenchmarkCall(b *testing.B) {
	c := newCaller(b, "many")
	b.ReportAllocs()
	for b.Loop() {
		if c.again(); c.id > 1<<29 {
			c = newCaller(b, "many")
		}
	}
}
