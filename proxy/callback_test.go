package main

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/testkit"
	"weir/proxy/callback"
)

// A client that names a URL receives the outcome of its request there, signed, even if the proxy
// crashes before. A request with a URL that is not allowed is refused before anything is stored.
func TestDeferralCallback(t *testing.T) {
	const key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	secret := testkit.Must(callback.ParseSecret(key))(t)
	told := make(chan string, 10) // id and state
	receiver := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var s struct{ ID, State string }
		at, err := strconv.ParseInt(r.Header.Get("webhook-timestamp"), 10, 64)
		if err != nil || json.Unmarshal(body, &s) != nil || r.Header.Get("webhook-signature") != secret.Sign(r.Header.Get("webhook-id"), time.Unix(at, 0), body) {
			t.Errorf("the receiver got %v %s", r.Header, body)
		}
		told <- s.ID + " " + s.State
	}))
	pair := testkit.SelfSigned(time.Now().Add(time.Hour), "127.0.0.1")
	receiver.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	receiver.StartTLS()
	defer receiver.Close()
	trusted, _ := testkit.WritePair(t, pair)

	s := newShop(t)
	env := append(deferring(t, s, "algorithm: fixed, limit: 1, window: 1", "reserve: 0, callback: true"),
		"DEFER_CALLBACK_HOSTS", receiver.Listener.Addr().String(), "DEFER_CALLBACK_SECRET", key, "SSL_CERT_FILE", trusted)
	p := launch(t, env)
	wish := func(url string) string { return `Prefer=weir-callback="` + url + `" ` }
	made := p.stored(wish(receiver.URL+"/paid?a=1,2"), "told")
	if got := testkit.Receive(t, told, "a callback"); got != made.ID+" done" {
		t.Errorf("the receiver was told %q, want %s", got, made.ID)
	}
	testkit.Eventually(t, "its status tells of the callback", func() bool {
		_, text := p.call("GET /deferred/" + made.ID + " X-Shop=a")
		return strings.Contains(text, `"callback":{"url":"`+receiver.URL+`/paid?a=1,2","state":"done","attempts":1,"status":200}`)
	})
	p.gets("GET /config/deferred?state=done&rule=deferred%20callbacks", 200, receiver.URL)

	p.gets("POST /config/deferred", 200, "", `{"rule":"orders","paused":true}`)
	for _, url := range []string{"https://169.254.169.254/", "https://localhost/", "http://" + receiver.Listener.Addr().String(), "https://user@" + receiver.Listener.Addr().String(), "https://[::1]/", "x"} {
		testkit.Eventually(t, url+" is refused", func() bool {
			status, text := p.call("POST /orders X-Shop=a "+async+wish(url), "not told")
			if status == 202 {
				t.Fatalf("%s is accepted", url)
			}
			return status == 400 && strings.Contains(text, "; allowed are https URLs of the hosts") && !strings.Contains(text, receiver.URL)
		})
	}
	kept := p.stored(wish(receiver.URL), "told later")
	_ = p.Process.Signal(syscall.SIGKILL)
	p.Status()
	p = launch(t, env)
	p.gets("POST /config/deferred", 200, "", `{"rule":"orders","paused":false}`)
	if got := testkit.Receive(t, told, "a callback"); got != kept.ID+" done" {
		t.Errorf("the receiver was told %q, want %s", got, kept.ID)
	}
}
