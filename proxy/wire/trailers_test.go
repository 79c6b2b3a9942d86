package wire

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"weir/internal/net/http1"
	"weir/internal/test/testkit"
)

// sections says what becomes of a trailer section: the lines of it that are passed on.
var sections = []struct {
	lines, want string
	dropped     int
}{
	{"grpc-status: 0\r\ngrpc-message:\r\n", "Grpc-Message: Grpc-Status:0", 0},
	{"X-A: 1\r\nx-a: 2\r\n", "X-A:1,2", 0},
	{"Content-Length: 9\r\nTransfer-Encoding: chunked\r\nX-A: 1\r\nHost: y\r\nTrailer: X-A\r\nConnection: close\r\n", "X-A:1", 1},
	{"Authorization: a\r\nCookie: a\r\nSet-Cookie: a\r\nWWW-Authenticate: a\r\nContent-Type: a\r\nCache-Control: a\r\n", "", 1},
	{"X-Forwarded-For: 6.6.6.6\r\nForwarded: for=6.6.6.6\r\nX-Real-IP: 6.6.6.6\r\nVia: 1.1 a\r\nX-Request-Id: a\r\n", "", 1},
	{"X-Hop: 1\r\nX-Hops: 2\r\n", "X-Hops:2", 1},
}

// inOrder returns trailers in one line, by name.
func inOrder(h http.Header) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(h)) {
		all = append(all, name+":"+strings.Join(h[name], ","))
	}
	return strings.Join(all, " ")
}

// Trailers of requests reach the target, unless they belong to the head, and its own reach the client.
func TestTrailers(t *testing.T) {
	t.Parallel()
	r := startHTTP2(t, func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		fmt.Fprintf(w, "%s %s", body, inOrder(q.Trailer))
		_ = http.NewResponseController(w).Flush() // so that it has no length
		w.Header().Set(http.TrailerPrefix+"X-End", q.Header.Get("Te"))
	})
	h1 := &http.Client{Transport: new(http.Transport)}
	t.Cleanup(h1.CloseIdleConnections)
	for _, client := range []*http.Client{h1, http2Client(t)} {
		for _, size := range []int{0, 10, 70_000, 1 << 20} { // collected and streamed
			body := strings.Repeat("x", size)
			q := testkit.Must(http.NewRequest("POST", "http://"+r.Addr().String()+"/", io.NopCloser(strings.NewReader(body))))(t)
			q.Header.Set("Te", "trailers")
			q.Trailer = http.Header{"X-Sum": {"1"}, "X-More": {"2"}}
			a := testkit.Must(client.Do(q))(t)
			got, err := io.ReadAll(a.Body)
			if want := body + " X-More:2 X-Sum:1"; err != nil || string(got) != want || inOrder(a.Trailer) != "X-End:trailers" {
				t.Errorf("HTTP/%d, %d bytes: %v, %.20q…, want …%q; trailers %s", a.ProtoMajor, size, err, got, want[size:],
					inOrder(a.Trailer))
			}
		}
	}
}

// Of a trailer section only fields pass that do not belong to a head, in both directions.
func TestTrailerFields(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	r := start(t, newTarget(t, each(func(c *targetConn, s *seen) {
		got <- s.trailers
		i := int(s.target()[1] - '0')
		c.say("HTTP/1.1 200 OK\r\nConnection: keep-alive, x-hop\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n" +
			sections[i].lines + "\r\n")
	})).url())
	dropped := 0
	for i, test := range sections {
		c := r.dial()
		c.Send(fmt.Sprintf("POST /%d HTTP/1.1\r\nHost: x\r\nTE: trailers\r\nConnection: te\r\n"+
			"Connection: , x-hop\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n%s\r\n", i, test.lines))
		a := testkit.Must(http.ReadResponse(c.In, nil))(t)
		body, err := io.ReadAll(a.Body)
		if err != nil || string(body) != "ok" || inOrder(a.Trailer) != test.want {
			t.Errorf("%q: %v, %q, the client gets %q, want %q", test.lines, err, body, inOrder(a.Trailer), test.want)
		}
		passed := http.Header{}
		for line := range strings.Lines(<-got) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			passed.Add(name, strings.TrimSpace(value))
		}
		if inOrder(passed) != test.want {
			t.Errorf("%q: the target gets %q, want %q", test.lines, inOrder(passed), test.want)
		}
		dropped += 2 * test.dropped
		r.metrics("dropped_trailers_total=%d", dropped)
	}
}

// Targets may merge trailers into the head. So those do not pass that would look there like fields at which rules
// look.
func TestTrailersSeenByRules(t *testing.T) {
	t.Parallel()
	r := startHTTP2(t, func(w http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(io.Discard, q.Body)
		fmt.Fprint(w, inOrder(q.Trailer))
	}, "UNDERSCORED_FIELDS", "keep", "RULES_FILE", ruleFile(t, `rules:
- {id: a, key: [header:X-Key], match: {headers: {X-Plan: pro}},
   limit: {algorithm: fixed, limit: 9, window: C}, cost: {header: X-Cost, max: 9}}
- {id: b, key: [ip],
   limit: {algorithm: fixed, limit: 9, window: C},
   priority: {header: X-Class, classes: {high: 0, low: 0.1}, default: low}}
- {id: c, key: [secret:header:x-client], limit: {algorithm: fixed, limit: 9, window: C}}
`))
	h1 := &http.Client{Transport: new(http.Transport)}
	t.Cleanup(h1.CloseIdleConnections)
	for _, client := range []*http.Client{h1, http2Client(t)} {
		q := testkit.Must(http.NewRequest("POST", "http://"+r.Addr().String()+"/", io.NopCloser(strings.NewReader("x"))))(t)
		q.Trailer = http.Header{"X-Keys": {"passes"}}
		for _, name := range []string{"X-Key", "X_Key", "X-Plan", "X-Cost", "X-Class", "X-Client"} {
			q.Trailer.Set(name, "1")
		}
		a := testkit.Must(client.Do(q))(t)
		got, err := io.ReadAll(a.Body)
		if err != nil || string(got) != "X-Keys:passes" {
			t.Errorf("HTTP/%d: %v, the target gets %q", a.ProtoMajor, err, got)
		}
	}
	r.metrics("dropped_trailers_total=2")
}

// Trailers do not pass with TRAILERS=drop, nor to a client that has not said that it takes them, and are
// counted.
func TestTrailersAreDropped(t *testing.T) {
	t.Parallel()
	for trailers, te := range map[string]string{"pass": "", "drop": "TE=trailers"} {
		r := start(t, newTarget(t, each(func(c *targetConn, s *seen) {
			c.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nA: b\r\n\r\n")
			if _, has := s.head.Value(http1.FieldTE); has || trailers == "drop" && s.trailers != "" {
				t.Errorf("%s: the target gets %q and trailers %q", trailers, s.raw, s.trailers)
			}
		})).url(), "TRAILERS", trailers)
		r.playf(`c GET / %s -> reads "HTTP/1.1 200 "`, te)
		a := testkit.Must(http.ReadResponse(r.clients("c")[0].In, nil))(t)
		if body, err := io.ReadAll(a.Body); err != nil || string(body) != "ok" || len(a.Trailer) > 0 {
			t.Errorf("%s: %v, %q, trailers %v", trailers, err, body, a.Trailer)
		}
		r.playf(`metrics dropped_trailers_total=1
			POST / Transfer-Encoding=chunked part="1\r\na\r\n0\r\nA: b\r\n\r\n" -> 200
			metrics dropped_trailers_total=%d`, map[string]int{"pass": 2, "drop": 3}[trailers])
	}
}
