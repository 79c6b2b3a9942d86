package check

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"weir/internal/net/http1"
	"weir/internal/test/testkit"
	"weir/proxy/limit"
	"weir/proxy/rules/decide"
	"weir/proxy/store"
)

// describe reads a request to /check with further fields of a client.
func describe(t testing.TB, f *form, client []byte) (what string, ok bool) {
	own := "X-Original-Method: POST\r\nX-Original-URI: /a?b\r\nX-Original-Host: h\r\n"
	if f == &formForwarded {
		own = "X-Forwarded-Method: POST\r\nX-Forwarded-Uri: /a?b\r\nX-Forwarded-Host: h\r\n"
	}
	target := "GET /check/original"
	if f == &formPath {
		own, target = "", "POST /check/path/a?b"
	}
	text := fmt.Appendf(nil, "%s HTTP/1.1\r\nHost: h\r\n%s%s\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n", target, own, client)
	r := http1.NewRequestReader(nil)
	var h http1.Head
	event, err := r.Next(text, &h)
	if err != nil || event.Kind != http1.HeadDone || int(event.N) != len(text) {
		return "", false // is never asked about
	}
	var d described
	if err := d.read(f, &h, netip.MustParseAddr("192.0.2.9"), func(netip.Addr) bool { return false }); err != nil {
		return "", false // is refused
	}
	return fmt.Sprintf("%s %s ? %s at %s by %v", d.head.MethodText, d.head.Path, d.head.Query, d.head.Host, d.client), true
}

// Whatever fields a client adds in front of those that the asker sets: the request that is
// described is the same, or refused.
func FuzzDescribed(f *testing.F) {
	for _, text := range []string{"A: b", "X-Original-URI: /c", "x-original-uri: /c",
		"X-Forwarded-Uri: /c\r\nX-Forwarded-Method: GET", "X-Forwarded-For: 192.0.2.2",
		"X_Original_URI: /c", "X-Original-Host:", "Connection: X-Original-URI, X-Forwarded-For", "Host: i",
		"X-Forwarded-Host: i\r\nX-Original-Method: GET"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, client []byte) {
		if bytes.Contains(client, []byte("\r\n\r\n")) {
			return
		}
		for _, form := range []*form{&formForwarded, &formOriginal, &formPath} {
			if what, ok := describe(t, form, client); ok && what != "POST /a ? b at h by 192.0.2.1" {
				t.Errorf("with %q: %s", client, what)
			}
		}
	})
}

func TestDescribed(t *testing.T) {
	for _, form := range []*form{&formForwarded, &formOriginal, &formPath} {
		if what, ok := describe(t, form, []byte("Accept: a")); !ok || what != "POST /a ? b at h by 192.0.2.1" {
			t.Errorf("%q, %t", what, ok)
		}
	}
}

// What a reverse proxy accepts can be described, and the fault of a field is reported.
func TestOddDescriptions(t *testing.T) {
	for _, test := range []struct{ method, target, host, want string }{
		{"GET", "/a\xc3\xa9?\xe9", "h", "GET /a%C3%A9?%E9 at h"},
		{"GET", "/a b\x7f", "h", "GET /a%20b%7F at h"},
		{"GET", "/%zz", "h", "GET /%25zz at h"},
		{"GET", "/%4", "h", "GET /%254 at h"},
		{"GET", "/%41", "h", "GET /%41 at h"},
		{"OPTIONS", "*", "h", "OPTIONS * at h"},
		{"GET", "/a", "[::1]:80", "GET /a at [::1]:80"},
		{"GET", "/a", "::1", "GET /a at "},
		{"GET", "/a", "a..b", "GET /a at "},
		{"GET", "/a", "a b", "GET /a at "},
		{"GET", "/a", "", "GET /a at "},
		{"GET", "/a?" + strings.Repeat("a", 100<<10), "h", "GET /a?" + strings.Repeat("a", 100<<10) + " at h"},
		{"GET", "/a#b", "h", "the described target has a fragment"},
		{"GET", "a", "h", errMalformed.Error()},
		{"G T", "/a", "h", errMalformed.Error()},
		{"", "/a", "h", "the field X-Original-Method must not be empty"},
		{"GET", "", "h", "the field X-Original-URI must not be empty"},
	} {
		var h http1.Head
		for _, f := range [][2]string{{"X-Original-Method", test.method}, {"X-Original-URI", test.target},
			{"X-Original-Host", test.host}} {
			h.Fields = append(h.Fields, http1.Field{Name: []byte(f[0]), Value: []byte(f[1])})
		}
		var d described
		err := d.read(&formOriginal, &h, netip.Addr{}, func(netip.Addr) bool { return false })
		got := fmt.Sprintf("%s %s at %s", d.head.MethodText, d.head.Target, d.head.Host)
		if err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%q %.100q %q: %.100q, want %.100q", test.method, test.target, test.host, got, test.want)
		}
		h.Fields = h.Fields[:2]
		if err := d.read(&formOriginal, &h, netip.Addr{}, nil); err == nil {
			t.Error("a reverse proxy that does not set X-Original-Host is believed")
		}
	}
}

// FuzzPath checks that what follows /check/path in a request is read like a request of its own.
func FuzzPath(f *testing.F) {
	for _, text := range []string{"GET /check/path/a?b HTTP/1.1\r\nHost: h\r\nA: b\r\n\r\n",
		"PUT /check/path/%41/..//?a?b%zz HTTP/1.1\r\nHost: [::1]:8\r\nContent-Length: 1\r\n\r\n",
		"X /check/path/ HTTP/1.0\r\n\r\n", "X /check/path/ HTTP/1.0\r\nHost: h\r\n\r\n",
		"GET http://i/check/path/a HTTP/1.1\r\nHost: h\r\n\r\n", "OPTIONS /check/path/* HTTP/1.1\r\nHost: h\r\n\r\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var asked, want http1.Head
		r := http1.NewRequestReader(nil)
		if event, err := r.Next(text, &asked); err != nil || event.Kind != http1.HeadDone {
			return
		}
		if form, ok := formOf(asked.Path); !ok || form != &formPath {
			return
		}
		var d described
		got := d.read(&formPath, &asked, netip.Addr{}, func(netip.Addr) bool { return false })
		line, cut := bytes.CutPrefix(asked.Target, []byte(pathPrefix))
		described := fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: %s\r\n\r\n", asked.MethodText, line, asked.Host)
		r = http1.NewRequestReader(nil)
		_, err := r.Next(described, &want)
		if ok := cut && err == nil; ok != (got == nil) {
			t.Fatalf("%q: %v, read as %q: %v", text, got, described, err)
		} else if !ok {
			return
		}
		summary := func(h *http1.Head) string {
			return fmt.Sprintf("%v %q %q %q %q %t %q %v", h.Method, h.MethodText, h.Target, h.Path, h.Query, h.Query == nil,
				h.Host, h.Form)
		}
		if summary(&d.head) != summary(&want) {
			t.Errorf("%q: %s, want %s", text, summary(&d.head), summary(&want))
		}
	})
}

// To judge a described request costs no memory, but for reading the client's address.
func TestCheckAllocates(t *testing.T) {
	for _, test := range []struct {
		request, answer string
		most            float64
	}{
		{"GET /check/path/a?b HTTP/1.1\r\nHost: w\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n", "HTTP/1.1 200 ", 1},
		{"GET /check/original HTTP/1.1\r\nHost: w\r\nX-Original-Method: GET\r\nX-Original-URI: " +
			"/a?b\r\nX-Original-Host: h\r\n\r\n", "HTTP/1.1 204 ", 0},
		{"GET /check/original HTTP/1.1\r\nHost: w\r\nX-Original-Method: GET\r\nX-Original-URI: /a?b\r\nX-Original-Host: " +
			"h\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n", "HTTP/1.1 204 ", 1},
	} {
		env := granting(t)
		now := time.Unix(1, 0)
		s := New(now, env, netip.MustParseAddr("192.0.2.9"), false)
		request := []byte(test.request)
		allocs := testing.AllocsPerRun(200, func() {
			if s.HandleData(now, request) != len(request) || !bytes.HasPrefix(env.Out, []byte(test.answer)) {
				t.Fatalf("%q", env.Out)
			}
			env.Reset()
		})
		if allocs > test.most {
			t.Errorf("%q: %v allocations, want at most %v", request, allocs, test.most)
		}
	}
}

// granting returns the Env of a store that grants every request.
func granting(t testing.TB) *Env {
	l := testkit.Must(limit.NewFixed(1<<40, time.Hour))(t)
	policy := decide.NewPolicy(l)
	granted := store.Answer{Granted: 1, Decisions: []limit.Decision{{Allowed: true, Limit: 1 << 40, Remaining: 1}}}
	return &Env{Access: &AccessPolicy{Open: true}, Policy: func() *decide.Policy { return policy },
		Trusted: func(netip.Addr) bool { return false },
		Count:   func(API, int, Protocol) {}, Undescribed: func(time.Time, string) {}, Answers: decide.Responder{
			Style: &decide.RefusalStyle{LimitFields: decide.XRateLimit | decide.Standard}},
		Ask: func(_ time.Time, _ *store.Ask, ans *store.Answer, _ store.Done) bool {
			*ans = granted
			return true
		}}
}
