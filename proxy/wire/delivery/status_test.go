package delivery

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/deferred"
	"weir/proxy/limit"
	"weir/proxy/rules/decide"
	"weir/proxy/rules/keys"
	"weir/proxy/rules/rule"
)

// policy is the policy of the rules in a file.
func policy(t *testing.T, text string) *decide.Policy {
	t.Helper()
	set := testkit.Must(rule.Read([]byte(text), rule.Options{Defers: true}))(t)
	l := testkit.Must(limit.NewFixed(10, time.Second))(t)
	return decide.NewPolicy(l).With(set, "1")
}

// The state of a request is shown to requests with the key under which it was counted.
func TestMaySee(t *testing.T) {
	t.Parallel()
	p := policy(t, "rules:\n- {id: shops, match: {methods: [POST], path: /orders}, key: [\"header:X-Shop\"], limit: "+
		"{algorithm: fixed, limit: 1, window: 1}, defer: {}}\n"+
		"- {id: users, match: {path: /u}, key: [\"header:X-Client-Cert\"], limit: {algorithm: fixed, limit: 1, "+
		"window: 1}, defer: {}}\n"+
		"- {id: hosts, match: {path: /h}, key: [ip, \"query:k\"], limit: {algorithm: fixed, limit: 1, "+
		"window: 1}, defer: {}}\n")
	proxies := netip.MustParsePrefix("198.51.100.0/24")
	known := testkit.Must(keys.NewForwardingFields(nil))(t)
	d := &Dispatcher{cfg: Config{SameClient: true, ForwardingFields: known, Policy: func() *decide.Policy { return p },
		Trusts: proxies.Contains}}
	f := func(rule, line, head, target, remote, shop string, want bool) {
		t.Helper()
		r := httptest.NewRequest("GET", target, nil)
		r.RemoteAddr = remote + ":1234"
		if shop != "" {
			r.Header.Set("X-Shop", shop)
			r.Header.Set("X-Client-Cert", shop)
			r.Header.Set("X-Forwarded-For", "192.0.2.7")
		}
		if got := d.maySee(r,
			&deferred.Entry{Rule: rule, LineKey: line,
				Head: []byte(head + " HTTP/1.1\r\nHost: x\r\nX-Shop: a\r\n")}); got != want {
			t.Errorf("%s %s by %s of %s, %s: %v", rule, line, shop, remote, target, got)
		}
	}
	f("shops", "1:a", "POST /orders?x=1", "/deferred/1", "192.0.2.1", "a", true)
	f("shops", "1:a", "POST /orders?x=1", "/deferred/1", "192.0.2.1", "b", false)
	f("shops", "1:a", "POST /orders?x=1", "/deferred/1", "192.0.2.1", "", false)
	f("shops", "", "POST /orders", "/deferred/1", "192.0.2.1", "", true)
	f("users", "1:a", "POST /u", "/deferred/1", "198.51.100.1", "a", true)
	f("users", "1:a", "POST /u", "/deferred/1", "192.0.2.1", "a", false) // no trusted proxy says so
	f("gone", "1:a", "POST /orders", "/deferred/1", "192.0.2.1", "a", false)
	f("hosts", "9:192.0.2.11:v", "POST /h?k=v", "/deferred/1?k=v", "192.0.2.1", "", true)
	f("hosts", "9:192.0.2.11:v", "POST /h?k=v", "/deferred/1", "192.0.2.1", "", false)
	f("hosts", "9:192.0.2.11:v", "POST /h?k=v", "/deferred/1?k=v", "192.0.2.2", "", false)
	f("hosts", "9:192.0.2.71:v", "POST /h?k=v", "/deferred/1?k=v", "198.51.100.1", "a", true)
	f("hosts", "9:192.0.2.71:v", "POST /h?k=v", "/deferred/1?k=v", "192.0.2.1", "a", false)
	d.cfg.SameClient = false
	f("shops", "1:a", "POST /orders", "/deferred/1", "192.0.2.1", "b", true)
}

// The line of the request that a result begins with is not a field of the answer, whatever is in it.
func TestResultHasNoRequestLine(t *testing.T) {
	t.Parallel()
	head := []byte("POST /orders/a: HTTP/1.1\r\nX-A: b: c\r\n")
	e := &deferred.Entry{State: deferred.Done, Result: &deferred.Result{Status: 200, Head: head}}
	w := httptest.NewRecorder()
	new(Dispatcher).result(t.Context(), w, e, 0)
	if got := fmt.Sprint(w.Header()); got != "map[Content-Security-Policy:[sandbox; frame-ancestors 'none'] X-A:[b: c] "+
		"X-Content-Type-Options:[nosniff] X-Frame-Options:[DENY] X-Weir-State:[done] X-Weir-Status:[200]]" {
		t.Errorf("the answer has the fields %q", got)
	}
	if got := fmt.Sprint(shownOf(e, 0).Result.Fields); got != "[[X-A b: c]]" {
		t.Errorf("the fields are shown as %q", got)
	}
}

// What a target has answered is of the type that it has declared, and no page of this origin.
func TestResultIsNoPage(t *testing.T) {
	t.Parallel()
	const page = "<script>alert(1)</script>"
	for _, f := range []struct{ fields, kind, disposition string }{
		{"", "application/octet-stream", "attachment"},
		{"Content-Type: text/html\r\n", "text/html", "attachment"},
		{"Content-Type: image/svg+xml\r\n", "image/svg+xml", "attachment"},
		{"Content-Type: text/html, text/plain\r\n", "text/html, text/plain", "attachment"},
		{"Content-Type: text/plain\r\nContent-Type: text/html\r\n", "application/octet-stream", "attachment"},
		{"Content-Type: text/html\r\nContent-Disposition: inline\r\n", "text/html", "attachment"},
		{"Content-Type: text/html\r\nContent-Disposition: attachment; filename=a.html\r\n", "text/html",
			"attachment; filename=a.html"},
		{"Content-Type: text/html\r\nContent-Disposition: attachment\r\nContent-Disposition: inline\r\n", "text/html",
			"attachment"},
		{"Content-Type: text/plain; charset=utf-8\r\n", "text/plain; charset=utf-8", ""},
		{"content-type: Application/JSON\r\n", "Application/JSON", ""},
		{"Content-Type: application/problem+json\r\n", "application/problem+json", ""},
		{"Content-Type: text/plain\r\nContent-Security-Policy: default-src *\r\nX-Content-Type-Options: none\r\n",
			"text/plain", ""},
	} {
		e := &deferred.Entry{State: deferred.Done,
			Result: &deferred.Result{Status: 200, Head: []byte("POST / HTTP/1.1\r\n" + f.fields), Body: []byte(page)}}
		w := httptest.NewRecorder()
		new(Dispatcher).result(t.Context(), w, e, 0)
		h := w.Header()
		if got := h.Get("Content-Type"); got != f.kind || len(h["Content-Type"]) != 1 || w.Body.String() != page {
			t.Errorf("%q has the types %q, want %q", f.fields, h["Content-Type"], f.kind)
		}
		if got := h.Values("Content-Disposition"); strings.Join(got, "|") != f.disposition {
			t.Errorf("%q has the disposition %q, want %q", f.fields, got, f.disposition)
		}
		if fmt.Sprint(h["Content-Security-Policy"],
			h["X-Content-Type-Options"]) != "[sandbox; frame-ancestors 'none'] [nosniff]" {
			t.Errorf("%q has the policies %q and %q", f.fields, h["Content-Security-Policy"], h["X-Content-Type-Options"])
		}
	}
}

// What the target has answered can be read if the request is done or has failed, and of a target
// that claims something else about it the claim is not believed.
func TestResultOfFailed(t *testing.T) {
	t.Parallel()
	answer := &deferred.Result{Status: 422,
		Head: []byte("POST / HTTP/1.1\r\nContent-Type: application/problem+json\r\nX-Weir-State: " +
			"done\r\nx-weir-status: 200\r\n"), Body: []byte(`{"title":"no"}`)}
	for _, f := range []struct {
		state  deferred.State
		answer *deferred.Result
		want   string
	}{
		{deferred.Done, answer, "422 done 422 no"}, {deferred.Failed, answer, "200 failed 422 no"},
		{deferred.Failed, nil, "410   "}, {deferred.Expired, answer, "410   "}, {deferred.Unknown, nil, "410   "},
		{deferred.Cancelled, nil, "410   "},
		{deferred.Waiting, answer, "425   "}, {deferred.Delivering, answer, "425   "},
	} {
		w := httptest.NewRecorder()
		new(Dispatcher).result(t.Context(), w, &deferred.Entry{State: f.state, Result: f.answer}, 0)
		var body struct{ Title string }
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
			t.Errorf("%s: %q: %v", f.state, w.Body, err)
		}
		h := w.Header()
		if got := fmt.Sprint(w.Code, " ", strings.Join(h["X-Weir-State"], "|"), " ",
			strings.Join(h["X-Weir-Status"], "|"), " ", body.Title); got != f.want {
			t.Errorf("%s with %+v: %q, want %q", f.state, f.answer, got, f.want)
		}
	}
}

// However long a target wants to be left alone, a request waits until it expires at most.
func TestRetryAfterIsClipped(t *testing.T) {
	t.Parallel()
	now := time.Now()
	p := &attempt{e: &deferred.Entry{Expires: now.Add(time.Hour)}}
	for after, want := range map[time.Duration]time.Duration{time.Minute: time.Minute, time.Hour: time.Hour,
		time.Hour + 1: time.Hour, math.MaxInt64: time.Hour} {
		s := &deferred.Settlement{To: deferred.Waiting}
		if p.attempted(now, s, after); !s.Due.Equal(now.Add(want)) {
			t.Errorf("after %v it is due in %v, want %v", after, s.Due.Sub(now), want)
		}
	}
}

// A client sees its request although path and fields together are larger than a head of either
// request could be.
func TestMaySeeLarge(t *testing.T) {
	t.Parallel()
	p := policy(t,
		"rules:\n- {id: shops, key: [\"header:X-Shop\"], limit: {algorithm: fixed, limit: 1, window: 1}, defer: {}}\n")
	d := &Dispatcher{cfg: Config{SameClient: true, ForwardingFields: testkit.Must(keys.NewForwardingFields(nil))(t),
		Policy: func() *decide.Policy { return p }, Trusts: netip.Prefix{}.Contains}}
	r := httptest.NewRequest("GET", "/deferred/1", nil)
	r.Header.Set("X-Shop", "a")
	r.Header.Set("Cookie", strings.Repeat("c", 15<<10))
	head := "POST /" + strings.Repeat("p", 15<<10) + " HTTP/1.1\r\nHost: x\r\nX-Shop: a\r\n"
	if !d.maySee(r, &deferred.Entry{Rule: "shops", LineKey: "1:a", Head: []byte(head)}) {
		t.Error("the client cannot see its request")
	}
}

// A proxy whose own URL is not the first in DEFER_ADVERTISE logs that, and redirects no client to
// itself.
func TestOwnSiteIsNotFirst(t *testing.T) {
	t.Parallel()
	d, _ := dispatcher(t)
	var log testkit.LogRecords
	var err error
	if d.cfg.ProxyURLs, err = deferred.ParseProxyURLs("http://b.example,http://a.example"); err != nil {
		t.Fatal(err)
	}
	d.cfg.Log = log.Logger("Deferred")
	other, _ := deferred.ParseProxyURLs("http://a.example")
	var id deferred.ID
	other.Tag(&id)
	for host, want := range map[string]int{"b.example": 307, "a.example": 404} {
		r, w := httptest.NewRequest("GET", "http://"+host+"/deferred/"+id.String(), nil), httptest.NewRecorder()
		r.SetPathValue("id", id.String())
		if d.asked(d.status)(w, r); w.Code != want {
			t.Errorf("asked as %s: %d, want %d", host, w.Code, want)
		}
	}
	if lines := strings.Join(log.Taken(), "\n"); strings.Count(lines, "DEFER_ADVERTISE") != 1 ||
		!strings.Contains(lines, "host=a.example") {
		t.Errorf("logged\n%s", lines)
	}
}
