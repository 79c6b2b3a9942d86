package deferred_test

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"weir/internal/data/strict"
	"weir/internal/net/http1"
	"weir/internal/test/testkit"
	"weir/proxy/deferred"
	"weir/proxy/deferred/callback"
)

// read reads a document whose member defer is that part of a rule.
func read(text string) (deferred.Defer, error) {
	r := strict.Reader{}
	var file struct {
		Defer deferred.Defer `json:"defer"`
	}
	if r.File([]byte("defer: "+text+"\n"), 1<<20) {
		r.Decode(r.Root, "", &file)
	}
	return file.Defer, r.Err()
}

func TestRead(t *testing.T) {
	t.Parallel()
	f := func(text string, want func(d *deferred.Defer)) {
		t.Helper()
		d := deferred.Default()
		want(&d)
		if got, err := read(text); err != nil || !reflect.DeepEqual(got, d) {
			t.Errorf("%s is read as %+v, %v; want %+v", text, got, err, d)
		}
	}
	f("{}", func(*deferred.Defer) {})
	f("{when: always, for: 0.5, perKey: 1}", func(d *deferred.Defer) { d.When, d.For, d.PerKey = deferred.Always, 0.5, 1 })
	f("{order: none}", func(d *deferred.Defer) { d.Order, d.Parallel = deferred.Unordered, 8 })
	f("{order: none, parallel: 2}", func(d *deferred.Defer) { d.Order, d.Parallel = deferred.Unordered, 2 })
	f("{reserve: 0, attempts: 1, retryOn: []}",
		func(d *deferred.Defer) { d.Reserve, d.Attempts, d.RetryOn = 0, 1, []int{} })
	f("{backoff: {first: 2}}", func(d *deferred.Defer) { d.Backoff.First = 2 })
	f("{idempotency: required, result: {bytes: 0}}",
		func(d *deferred.Defer) { d.Idempotency, d.Result.Bytes = deferred.Required, 0 })
}

func TestFaults(t *testing.T) {
	t.Parallel()
	f := func(text, path, message string) {
		t.Helper()
		_, err := read(text)
		faults, ok := errors.AsType[strict.Faults](err)
		if !ok || len(faults) != 1 || faults[0].Path != strings.TrimSuffix("defer."+path, ".") ||
			faults[0].Message != message {
			t.Errorf("%s:\nhave %v\nwant %s: %s", text, err, path, message)
		}
	}
	f("true", "", "must be an object, is true")
	f("{later: true}", "later", "unknown field; allowed: when, for, perKey, order, parallel, reserve, attempts, "+
		"backoff, retryOn, idempotency, result, callback")
	f("{when: now}", "when", `must be one of prefer, always, is "now"`)
	f("{for: 2592001}", "for", "must be from 0.001 to 2.592e+06 seconds, is 2.592001e+06")
	f("{for: 0}", "for", "must be from 0.001 to 2.592e+06 seconds, is 0")
	f("{perKey: 0}", "perKey", "must be a whole number from 1 to 1000000, is 0")
	f("{order: fifo}", "order", `must be one of key, none, is "fifo"`)
	f("{parallel: 2}", "parallel", "is allowed only with order none; with order key one is delivered at a time")
	f("{order: none, parallel: 65}", "parallel", "must be a whole number from 1 to 64, is 65")
	f("{reserve: 1}", "reserve", "must be from 0 to 0.9, is 1")
	f("{attempts: 0}", "attempts", "must be a whole number from 1 to 100, is 0")
	f("{backoff: {factor: 0.5}}", "backoff.factor", "must be from 1 to 10, is 0.5")
	f("{backoff: {first: 400}}", "backoff.max", "must not be less than first, which is 400, is 300")
	f("{retryOn: [503, 503]}", "retryOn[1]", "given twice")
	f("{retryOn: [200]}", "retryOn[0]", "must be a whole number from 400 to 599, is 200")
	f("{idempotency: no}", "idempotency", `must be one of optional, required, is "no"`)
	f("{result: {bytes: 2000000}}", "result.bytes", "must be a whole number from 0 to 1048576, is 2000000")
}

// Without an Idempotency-Key nothing is sent again once some of it may have reached the
// target.
func TestJudge(t *testing.T) {
	t.Parallel()
	d := deferred.Default()
	d.Attempts = 3
	f := func(a deferred.Attempt, to deferred.State, after time.Duration) {
		t.Helper()
		if got, pause := d.Judge(&a, 0.5); got != to || pause != after {
			t.Errorf("%+v leads to %v after %v, want %v after %v", a, got, pause, to, after)
		}
	}
	f(deferred.Attempt{N: 1, Sent: true, Status: 201}, deferred.Done, 0)
	f(deferred.Attempt{N: 1, Sent: true, Status: 303}, deferred.Done, 0)
	f(deferred.Attempt{N: 1, Sent: true, Status: 401, Keyed: true}, deferred.Failed, 0)
	f(deferred.Attempt{N: 1, Sent: true, Status: 503, Keyed: true}, deferred.Waiting, time.Second)
	f(deferred.Attempt{N: 2, Sent: true, Status: 503, Keyed: true}, deferred.Waiting, 2*time.Second)
	f(deferred.Attempt{N: 2, Sent: true, Status: 429, Keyed: true, RetryAfter: time.Minute}, deferred.Waiting, time.Minute)
	f(deferred.Attempt{N: 3, Sent: true, Status: 503, Keyed: true}, deferred.Failed, 0)
	f(deferred.Attempt{N: 1, Sent: true, Status: 503}, deferred.Failed, 0)
	f(deferred.Attempt{N: 1, Sent: true}, deferred.Unknown, 0)
	f(deferred.Attempt{N: 1, Sent: true, Keyed: true}, deferred.Waiting, time.Second)
	f(deferred.Attempt{N: 2}, deferred.Waiting, 2*time.Second)
	f(deferred.Attempt{N: 3}, deferred.Failed, 0)

	d.Attempts = 100
	for n, most := range map[int]time.Duration{1: time.Second, 9: 256 * time.Second, 10: 300 * time.Second,
		99: 300 * time.Second} {
		for _, chance := range []float64{0, 0.5, 1} {
			_, pause := d.Judge(&deferred.Attempt{N: n}, chance)
			if want := time.Duration(float64(most) * (0.8 + 0.4*chance)); pause < want-time.Millisecond ||
				pause > want+time.Millisecond {
				t.Errorf("after attempt %d, by chance %v, it pauses %v, want %v", n, chance, pause, want)
			}
		}
	}
}

func TestPrefers(t *testing.T) {
	t.Parallel()
	f := func(fields string, want bool) {
		t.Helper()
		var h http1.Head
		r := http1.NewRequestReader(&http1.Limits{})
		if _, err := r.Next([]byte("POST / HTTP/1.1\r\nHost: x\r\n"+fields+"\r\n"), &h); err != nil {
			t.Fatal(err)
		}
		if deferred.PrefersAsync(&h) != want {
			t.Errorf("%q: prefers %v", fields, !want)
		}
	}
	f("", false)
	f("Prefer: respond-async\r\n", true)
	f("prefer: return=minimal, Respond-Async ; x=1, wait=10\r\n", true)
	f("Prefer: wait=10\r\nPrefer: respond-async\r\n", true)
	f("Prefer: respond-asynchronously\r\n", false)
	f("Prefer: x=\"respond-async, respond-async\"\r\n", false)
	f("Prefer: x=\"\\\", respond-async\r\n", false)
	f("Prefer: x=\"\\\"\", respond-async\r\n", true)
	d := deferred.Default()
	if d.Stores(false) || !d.Stores(true) {
		t.Error("with prefer it does not matter what the client prefers")
	}
	if d.When = deferred.Always; !d.Stores(false) {
		t.Error("with always the client has to ask")
	}
}

// fields are those of a request.
func fields(of map[string][]string) func(string) iter.Seq[[]byte] {
	return func(name string) iter.Seq[[]byte] {
		return func(yield func([]byte) bool) {
			for _, v := range of[name] {
				if !yield([]byte(v)) {
					return
				}
			}
		}
	}
}

// A URL to be called back is taken from the first preference of that name, if the rule has it, and
// must be one that may be called.
func TestCallback(t *testing.T) {
	t.Parallel()
	hosts := testkit.Must(callback.ParseHosts("a.example"))(t)
	with := deferred.Default()
	with.Callback = true
	f := func(want, fault string, values ...string) {
		t.Helper()
		if w, got := with.ParseOptions(hosts, fields(map[string][]string{"Prefer": values})); w.Callback != want ||
			!strings.HasPrefix(got, fault) || fault == "" && got != "" {
			t.Errorf("%q: %q, %q; want %q, %q", values, w.Callback, got, want, fault)
		}
	}
	const url = "https://a.example/x"
	f("", "")
	f("", "", "respond-async")
	f(url, "", `respond-async, weir-callback="https://a.example/x"`)
	f(url, "", `Weir-Callback = "https://a.example/x" ; a="b, c"; d , respond-async`)
	f(url, "", "wait=5", `weir-callback=https://a.example/x`)
	f(url, "", `weir-callback="https://a.example/x"`, `weir-callback="https://b.example"`)
	f(url+"?a=1,2;3", "", `weir-callback="https://a.example/x?a=1,2;3", respond-async`)
	f("", "", `x="weir-callback=https://b.example, weir-callback=1"`)
	f("", "", `x="a\", weir-callback=https://b.example"`)
	f(url, "", `weir-callback="https://a.exa\mple/x"`)
	f("", "weir-callback is not https; allowed are https URLs of the hosts that this proxy is set to call back",
		"weir-callback")
	f("", "weir-callback is not https", `weir-callback=""`)
	f("", "weir-callback is not https", `weir-callback="`)
	f("", "weir-callback is not https", `weir-callback="http://a.example"`)
	f("", "weir-callback has a host that is not listed", `weir-callback="https://b.example"`,
		`weir-callback="https://a.example"`)

	without := deferred.Default()
	values := fields(map[string][]string{"Prefer": {`weir-callback="http://x"`}})
	if w, fault := without.ParseOptions(hosts, values); w.Callback != "" || fault != "" {
		t.Errorf("a rule without callbacks: %+v, %q", w, fault)
	}
	if w, fault := with.ParseOptions(nil, values); w.Callback != "" || fault != "" {
		t.Errorf("a proxy without callbacks: %+v, %q", w, fault)
	}
	for _, applied := range []struct {
		callback string
		async    bool
		want     string
	}{{"", false, ""}, {"", true, "respond-async"}, {url, false, "weir-callback"},
		{url, true, "respond-async, weir-callback"}} {
		w := deferred.Options{Callback: applied.callback}
		if got := w.AppliedPreferences(applied.async); got != applied.want {
			t.Errorf("%+v: applied %q", applied, got)
		}
	}
}

func TestCheckKey(t *testing.T) {
	t.Parallel()
	optional, required := deferred.Default(), deferred.Default()
	required.Idempotency = deferred.Required
	f := func(d *deferred.Defer, want string, values ...string) {
		t.Helper()
		if w, got := d.ParseOptions(nil, fields(map[string][]string{"Idempotency-Key": values})); got != want || got == "" &&
			len(values) == 1 && string(w.Key) != values[0] {
			t.Errorf("%q: %q, the key %q, want %q", values, got, w.Key, want)
		}
	}
	const malformed = "Idempotency-Key must be 1 to 255 visible ASCII characters"
	f(&optional, "")
	f(&required, "the rule needs an Idempotency-Key")
	f(&required, "", `"8e03978e-40d5-43dd"`)
	f(&optional, malformed, "")
	f(&optional, "", strings.Repeat("a", 255))
	f(&optional, malformed, strings.Repeat("a", 256))
	f(&optional, malformed, "a b")
	f(&optional, malformed, "ä")
	f(&optional, "Idempotency-Key must be given once", "a", "a")
}

// A key holds for a rule and its key, method and path; parts that are cut at other places are
// others.
func TestDigests(t *testing.T) {
	t.Parallel()
	request := func(method, target, body string) *deferred.Request {
		return &deferred.Request{Method: []byte(method), Target: []byte(target), Body: []byte(body),
			Options: deferred.Options{Key: []byte("k")}}
	}
	one := request("POST", "/a?b", "c")
	if got, want := request("POST", "/a?d", "e").Scope("r", "l"), one.Scope("r", "l"); got != want {
		t.Errorf("with another query and body the scope is %x, want %x", got, want)
	}
	for i, other := range []deferred.SHA256{one.Scope("rl", ""), one.Scope("r", "m"),
		request("PUT", "/a", "c").Scope("r", "l"), request("POST", "/b", "c").Scope("r", "l")} {
		if other == one.Scope("r", "l") {
			t.Errorf("scope %d is the same", i)
		}
	}
	two := request("POST", "/a", "c")
	if two.Sender = "192.0.2.1"; two.Scope("r", "l") == one.Scope("r", "l") ||
		two.Scope("r", "") == one.Scope("r", two.Sender) {
		t.Error("two senders have the same scope")
	}
	told := request("POST", "/a?b", "c")
	if told.Callback = "https://a.example"; told.Fingerprint() == one.Fingerprint() {
		t.Error("the same request with a callback is the same")
	}
	for i, other := range []*deferred.Request{request("POST", "/a?bc", ""), request("POST", "/a?", "bc"),
		request("PUT", "/a?b", "c")} {
		if other.Fingerprint() == one.Fingerprint() {
			t.Errorf("fingerprint %d is the same", i)
		}
	}
}

// The scope of a key holds for the same credentials only, and does not depend on other fields.
func TestCredentials(t *testing.T) {
	t.Parallel()
	d := deferred.Default()
	f := func(more map[string][]string) deferred.SHA256 {
		t.Helper()
		all := map[string][]string{"Idempotency-Key": {"k"}}
		maps.Copy(all, more)
		w, fault := d.ParseOptions(nil, fields(all))
		if fault != "" {
			t.Fatal(fault)
		}
		return (&deferred.Request{Method: []byte("POST"), Target: []byte("/"), Options: w}).Scope("r", "l")
	}
	none := f(nil)
	if have := f(map[string][]string{"Accept": {"a"}}); have != none {
		t.Errorf("a request without credentials has scope %x, and with Accept %x", none, have)
	}
	cookie := map[string][]string{"Cookie": {"a"}}
	if one, other := f(cookie), f(cookie); one != other {
		t.Errorf("the same credentials have the scopes %x and %x", one, other)
	}
	seen := map[deferred.SHA256]string{none: "none"}
	for _, c := range []map[string][]string{
		{"Authorization": {"a"}}, {"Authorization": {"b"}}, {"Authorization": {"a", "b"}}, {"Authorization": {"ab"}},
		{"Cookie": {"a"}}, {"Cookie": {"a", "b"}}, {"Authorization": {"a"}, "Cookie": {"b"}},
		{"Authorization": {"b"}, "Cookie": {"a"}},
	} {
		if other, there := seen[f(c)]; there {
			t.Errorf("%v has the scope of %s", c, other)
		}
		seen[f(c)] = fmt.Sprint(c)
	}
}

// A callback is sent five times within an hour and a quarter, until its receiver takes it or is gone.
func TestJudgeCallback(t *testing.T) {
	t.Parallel()
	d := deferred.ForCallbacks()
	f := func(n, status int, says time.Duration, to deferred.State, after time.Duration) {
		t.Helper()
		if got, pause := d.JudgeCallback(&deferred.Attempt{N: n, Status: status, RetryAfter: says}, 0.5); got != to ||
			pause != after {
			t.Errorf("attempt %d with %d leads to %v after %v, want %v after %v", n, status, got, pause, to, after)
		}
	}
	f(1, 200, 0, deferred.Done, 0)
	f(5, 299, 0, deferred.Done, 0)
	f(1, 410, 0, deferred.Failed, 0)
	for _, status := range []int{0, 101, 300, 302, 400, 404, 500, 503} {
		f(1, status, 0, deferred.Waiting, 5*time.Second)
		f(5, status, 0, deferred.Failed, 0)
	}
	f(2, 500, 0, deferred.Waiting, 50*time.Second)
	f(3, 500, 0, deferred.Waiting, 500*time.Second)
	f(4, 500, 0, deferred.Waiting, time.Hour)
	f(1, 429, time.Minute, deferred.Waiting, time.Minute)
	f(1, 429, 24*time.Hour, deferred.Waiting, time.Hour)
}

// However a client writes its preferences, what they name may be called back.
func FuzzOptions(f *testing.F) {
	for _, list := range []string{"respond-async",
		`weir-callback="https://a.example/x?a=1,2", respond-async;x="y,\\"z"`, `weir-callback="`, `",\`} {
		f.Add(list)
	}
	hosts := testkit.Must(callback.ParseHosts("a.example"))(f)
	d := deferred.Default()
	d.Callback = true
	f.Fuzz(func(t *testing.T, list string) {
		w, fault := d.ParseOptions(hosts, fields(map[string][]string{"Prefer": {list}}))
		if w.Callback == "" {
			return
		}
		if line, err := hosts.Check(w.Callback); err != nil || line != "a.example:443" || fault != "" {
			t.Errorf("%q: %q at %q, %v, %q", list, w.Callback, line, err, fault)
		}
	})
}
