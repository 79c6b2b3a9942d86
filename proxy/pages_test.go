package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"weir/internal/data/chart/charttest"
	"weir/internal/test/testkit"
)

// asking is a page that tries in every way open to it to have Weir describe a request. %[1]s is the
// address of /check.
const asking = `<!DOCTYPE html><title>asking</title>
<img src="%[1]s/path/image"><script src="%[1]s/path/script"></script><iframe src="%[1]s/path/frame"></iframe>
<iframe name="f"></iframe><form method="post" action="%[1]s/path/form" target="f"><input name="a"></form>
<script>
const described = {"X-Original-Method": "GET", "X-Original-URI": "/a", "X-Original-Host": "h", "X-Forwarded-Method": "GET",
	"X-Forwarded-Uri": "/a", "X-Forwarded-Host": "h", "X-Forwarded-For": "192.0.2.1"};
const tries = [];
for (const form of ["path/a", "original", "forwarded", "original?deny=403"]) {
	for (const mode of ["no-cors", "cors"]) {
		for (const headers of [{}, described]) {
			tries.push(fetch("%[1]s/" + form, {mode, headers}), fetch("%[1]s/" + form, {mode, headers, method: "POST", body: "a"}));
		}
	}
	navigator.sendBeacon("%[1]s/" + form, "a");
}
new WebSocket("%[1]s/path/socket".replace("http", "ws"));
document.forms[0].submit();
Promise.allSettled(tries).then((all) => { document.body.dataset.tries = all.length; });
</script>`

// A page that a browser on this machine shows describes no request, whatever it sends.
func TestPageCannotAsk(t *testing.T) {
	port := testkit.FreePort(t)
	p := launch(t, []string{"TARGET_URL", "none", "DECISION_PORT", port, "ADMIN_OPEN", "true", "EVENT_LOOPS", "1"})
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, asking, "http://127.0.0.1:"+port+"/check")
	}))
	defer page.Close()
	dom, log := charttest.Visit(t, page.URL, 10*time.Second)
	if !strings.Contains(dom, `data-tries="32"`) {
		t.Fatalf("the page has not tried everything:\n%s\n%s", dom, log)
	}
	_, text := p.call("GET /metrics")
	refused := testkit.Samples(t, text)[`ratelimiter_check_requests_total{api="check",code="403"}`]
	if refused < 10 {
		t.Errorf("%v questions were refused: the page does not reach Weir\n%s", refused, log)
	}
	for _, counted := range regexp.MustCompile(
		`ratelimiter_check_requests_total\{api="check",code="[^"]*"\} [1-9]\d*`).FindAllString(text, -1) {
		if !strings.Contains(counted, `code="400"`) && !strings.Contains(counted, `code="403"`) {
			t.Errorf("a page was answered: %s", counted)
		}
	}
	if decided := testkit.Samples(t, text)["ratelimiter_store_decisions_total"]; decided > 0 {
		t.Errorf("a page was charged for %v requests", decided)
	}
}
