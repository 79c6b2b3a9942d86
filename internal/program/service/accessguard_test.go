package service

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/program/journal"
	"weir/internal/test/testkit"
)

// guarded returns Endpoints whose guarded endpoint POST /reload counts whom it
// answers; GET /test/status is open.
func guarded(g *AccessGuard) (own *Endpoints, reached *atomic.Int64) {
	reached = new(atomic.Int64)
	e := env()
	e.Guard = g
	own = NewEndpoints(e)
	own.HandleFunc("POST /reload", func(http.ResponseWriter, *http.Request) { reached.Add(1) })
	own.HandleFunc("GET /test/status", func(http.ResponseWriter, *http.Request) {})
	return own, reached
}

// With a token it alone counts.
func TestGuardToken(t *testing.T) {
	const token = "s3cr3t token"
	own, reached := guarded(&AccessGuard{Token: token})
	for _, test := range []struct {
		fields []string // Authorization
		passes bool
	}{
		{[]string{"Bearer s3cr3t token"}, true},
		{[]string{"bearer   s3cr3t token "}, true}, // RFC 9110 section 11.1: the scheme in any case
		{[]string{"BEARER s3cr3t token"}, true},
		{nil, false},
		{[]string{""}, false},
		{[]string{"Bearer"}, false},
		{[]string{"Bearer "}, false},
		{[]string{"s3cr3t token"}, false},
		{[]string{"Bearer s3cr3t"}, false},
		{[]string{"Bearer s3cr3t token2"}, false},
		{[]string{"Bearer S3CR3T TOKEN"}, false},
		{[]string{"Basic s3cr3t token"}, false},
		{[]string{"Bearer wrong", "Bearer s3cr3t token"}, false},
	} {
		before := reached.Load()
		r := httptest.NewRequest("POST", "http://localhost/reload", nil)
		r.Header["Authorization"] = test.fields
		w := httptest.NewRecorder()
		own.ServeHTTP(w, r)
		if passed := reached.Load() > before; passed != test.passes {
			t.Errorf("Authorization %q is let through: %t, want %t", test.fields, passed, test.passes)
		}
		if body := w.Body.String(); !test.passes && (w.Code != 403 || !strings.Contains(body, `"error":`) ||
			!strings.Contains(body, "send the ADMIN_TOKEN that is set, or set ADMIN_OPEN=true") ||
			strings.Contains(body, token)) {
			t.Errorf("Authorization %q: %d %s", test.fields, w.Code, body)
		}
	}
	if w := request(own, "GET", "/test/status"); w.Code != 200 {
		t.Errorf("an open endpoint: %d %s", w.Code, w.Body)
	}
}

// Without a token requests pass that are made on this machine, by this user.
func TestGuardLocal(t *testing.T) {
	g := new(AccessGuard)
	own, _ := guarded(g)
	servers := make(map[string]*httptest.Server)
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", "[::]:0"} {
		l := testkit.Must(net.Listen("tcp", address))(t)
		servers[address] = &httptest.Server{Listener: l, Config: &http.Server{Handler: own}}
		servers[address].Start()
		defer servers[address].Close()
	}
	for _, test := range []struct {
		name   string
		server string
		host   string   // PORT stands for the port
		fields []string // names and values in turn
		status int
	}{
		{"IPv4", "127.0.0.1:0", "127.0.0.1:PORT", nil, 200},
		{"IPv6", "[::1]:0", "[::1]:PORT", nil, 200},
		{"IPv4 at a socket of both", "[::]:0", "127.0.0.1:PORT", nil, 200},
		{"localhost", "127.0.0.1:0", "localhost:PORT", nil, 200},
		{"LOCALHOST without a port", "127.0.0.1:0", "LOCALHOST", nil, 200},
		{"another loopback address", "127.0.0.1:0", "127.7.7.7", nil, 200},
		{"IPv6 without a port", "127.0.0.1:0", "[::1]", nil, 200},
		{"a name that resolves to loopback", "127.0.0.1:0", "rebound.example:PORT", nil, 403},
		{"a name that begins like one", "127.0.0.1:0", "localhost.example", nil, 403},
		{"another address", "127.0.0.1:0", "10.0.0.1", nil, 403},
		{"own origin", "127.0.0.1:0", "localhost:PORT", []string{"Origin", "http://localhost:PORT", "Sec-Fetch-Site",
			"same-origin"}, 200},
		{"own origin with TLS", "127.0.0.1:0", "localhost:PORT", []string{"Origin", "https://localhost:PORT"}, 200},
		{"a page that is typed in", "127.0.0.1:0", "localhost:PORT", []string{"Sec-Fetch-Site", "none"}, 200},
		{"foreign origin", "127.0.0.1:0", "localhost:PORT", []string{"Origin", "http://evil.example"}, 403},
		{"another port's origin", "127.0.0.1:0", "localhost:PORT", []string{"Origin", "http://localhost:1"}, 403},
		{"no origin that may be named", "127.0.0.1:0", "localhost:PORT", []string{"Origin", "null"}, 403},
		{"two origins", "127.0.0.1:0", "localhost:PORT", []string{"Origin", "http://localhost:PORT", "Origin",
			"http://evil.example"}, 403},
		{"cross-site", "127.0.0.1:0", "localhost:PORT", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"same-site", "127.0.0.1:0", "localhost:PORT", []string{"Sec-Fetch-Site", "same-site"}, 403},
		{"Forwarded", "127.0.0.1:0", "localhost:PORT", []string{"Forwarded", "for=10.0.0.1"}, 403},
		{"X-Forwarded-For", "127.0.0.1:0", "localhost:PORT", []string{"X-Forwarded-For", "127.0.0.1"}, 403},
		{"x-forwarded-anything", "127.0.0.1:0", "localhost:PORT", []string{"x-forwarded-anything", ""}, 403},
		{"named in Connection", "127.0.0.1:0", "localhost:PORT",
			[]string{"Connection", "X-Forwarded-For", "X-Forwarded-For", "10.0.0.1"}, 403},
		{"X-Real-IP", "127.0.0.1:0", "localhost:PORT", []string{"X-Real-IP", "10.0.0.1"}, 403},
		{"Via", "127.0.0.1:0", "localhost:PORT", []string{"Via", "1.1 varnish"}, 403},
		{"a token that nobody set", "127.0.0.1:0", "rebound.example", []string{"Authorization", "Bearer "}, 403},
	} {
		t.Run(test.name, func(t *testing.T) {
			at := servers[test.server].Listener.Addr().(*net.TCPAddr)
			withPort := strings.NewReplacer("PORT",
				netip.MustParseAddrPort(at.String()).String()[strings.LastIndexByte(at.String(), ':')+1:]).Replace
			target := strings.Replace(at.String(), "[::]", "127.0.0.1", 1)
			r := testkit.Must(http.NewRequestWithContext(t.Context(), "POST", "http://"+target+"/reload", nil))(t)
			r.Host = withPort(test.host)
			for i := 0; i < len(test.fields); i += 2 {
				r.Header.Add(test.fields[i], withPort(test.fields[i+1]))
			}
			res := testkit.Must(http.DefaultClient.Do(r))(t)
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			if err != nil || res.StatusCode != test.status || test.status == 403 &&
				!strings.Contains(string(body), "set ADMIN_TOKEN, or ADMIN_OPEN=true") {
				t.Errorf("answered %d %s, %v; want %d", res.StatusCode, body, err, test.status)
			}
		})
	}
}

// What the rest of the program says.
func TestGuardModes(t *testing.T) {
	for _, test := range []struct {
		name   string
		guard  *AccessGuard
		remote string
		status int
	}{
		{"open", &AccessGuard{Open: true}, "10.0.0.1:1", 200},
		{"open with a token", &AccessGuard{Open: true, Token: "x"}, "10.0.0.1:1", 200},
		{"another machine", new(AccessGuard), "10.0.0.1:1", 403},
		{"no address", new(AccessGuard), "@", 403},
		{"a proxy in front", &AccessGuard{Fronted: true}, "127.0.0.1:1", 403},
		{"a connection that is not there", new(AccessGuard), "127.0.0.1:1", 403},
	} {
		own, _ := guarded(test.guard)
		r := httptest.NewRequest("POST", "http://localhost/reload", nil)
		r.RemoteAddr = test.remote
		w := httptest.NewRecorder()
		own.ServeHTTP(w, r)
		if w.Code != test.status {
			t.Errorf("%s: %d %s, want %d", test.name, w.Code, w.Body, test.status)
		}
	}
}

// One line a second tells of refusals, however many there are.
func TestGuardTellsOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		own, _ := guarded(&AccessGuard{
			Log: slog.New(journal.NewHandler("text", slog.LevelInfo, &log)).With(journal.ComponentKey, "Admin")})
		for range 1000 {
			request(own, "POST", "http://localhost/reload")
			time.Sleep(3 * time.Millisecond)
		}
		time.Sleep(2 * refusalPause)
		synctest.Wait()
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 4 || !strings.Contains(lines[0],
			"WARN Admin - Requests refused: set ADMIN_TOKEN, or ADMIN_OPEN=true count=1 latest=\"POST /reload\" "+
				"from=192.0.2.1:1234 reason=\"does not come from a loopback address\"") ||
			!strings.Contains(lines[1], " count=333 ") && !strings.Contains(lines[1], " count=334 ") {
			t.Errorf("3 s of refusals are told as\n%s", log.String())
		}
	})
}

// A socket that its process has closed tells no owner: the kernel then names
// root, whose process it never was.
func TestSocketOwner(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l := testkit.Must(net.Listen("tcp", address))(t)
		defer l.Close()
		client := testkit.Must(net.Dial("tcp", l.Addr().String()))(t)
		server := testkit.Must(l.Accept())(t)
		peer, own := netip.MustParseAddrPort(client.LocalAddr().String()),
			netip.MustParseAddrPort(server.LocalAddr().String())
		check := func(when string, peer, own netip.AddrPort, known bool) {
			t.Helper()
			if owner, err := socketOwner(peer, own); (err == nil) != known || known && owner != uint32(os.Geteuid()) {
				t.Errorf("%s, %s: user %d, %v", address, when, owner, err)
			}
		}
		check("open", peer, own, true)
		check("listening", own, peer, true) // our own end
		check("another connection", peer, netip.AddrPortFrom(own.Addr(), own.Port()^1), false)
		if err := client.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		check("half closed", peer, own, true)
		client.Close()
		check("closed", peer, own, false)
		server.Close()
		check("closed by both", peer, own, false)
		check("only listened on", own, netip.AddrPortFrom(own.Addr(), 1), false)
	}
}

// A pattern of which nobody has said who may use it cannot be registered.
func TestEndpointWithoutDecision(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("it is registered")
		}
	}()
	NewEndpoints(env()).HandleFunc("GET /config/new", func(http.ResponseWriter, *http.Request) {})
}
