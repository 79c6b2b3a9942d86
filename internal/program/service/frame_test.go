package service

import (
	"net/http"
	"strings"
	"testing"

	"weir/internal/test/testkit"
)

// No answer can be shown in a frame: neither of a listed endpoint, whatever its handler
// does, nor a refusal by Endpoints, nor what the HandlerPool answers by itself.
func TestNothingCanBeFramed(t *testing.T) {
	unframed := func(what string, fields [][2]string) {
		t.Helper()
		var found int
		for _, f := range fields {
			if f == [2]string{"X-Frame-Options", "DENY"} || f[0] == "Content-Security-Policy" &&
				strings.HasSuffix(f[1], "frame-ancestors 'none'") {
				found++
			}
		}
		if found != 2 {
			t.Errorf("%s can be shown in a frame: %q", what, fields)
		}
	}
	pairs := func(h http.Header) (all [][2]string) {
		for name, values := range h {
			for _, v := range values {
				all = append(all, [2]string{name, v})
			}
		}
		return all
	}
	h := NewEndpoints(env())
	h.HandleFunc("GET /test/report", func(w http.ResponseWriter, _ *http.Request) { WritePage(w, CSPStatic, nil) })
	h.HandleFunc("GET /test/status", func(http.ResponseWriter, *http.Request) {})
	h.HandleFunc("POST /reload", func(http.ResponseWriter, *http.Request) {})
	for _, asked := range []string{"GET /test/report", "GET /test/status", "GET /test/status?x=1", "POST /test/status",
		"POST /reload",
		"GET /nowhere", "GET //test/report", "GET /metrics", "GET /actuator/health", "GET /actuator/health/readiness"} {
		method, target, _ := strings.Cut(asked, " ")
		unframed(asked, pairs(request(h, method, target).Header()))
	}
	h.HandleFunc(resultPattern, func(http.ResponseWriter, *http.Request) {})
	unframed("the refusal of a port for operators", pairs(request(h.ForOperators(), "GET", "/deferred/1/result").Header()))
	d := NewHandlerPool(h, 1, 1)
	defer d.Close()
	for _, raw := range []string{"GET /actuator/health HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /test/status HTTP/1.1\r\nHost: x\r\n\r\n", "nonsense"} {
		answers := make(chan Response, 1)
		d.Submit([]byte(raw), Addrs{}, func(r Response) { answers <- r })
		unframed(raw, testkit.Receive(t, answers, "the answer").Fields)
	}
	unframed("the answer of a full pool", Overloaded().Fields)
}
