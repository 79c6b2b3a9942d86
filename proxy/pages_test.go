package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"weir/internal/data/chart/charttest"
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
	p, at := startDecider(t)
	page := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, asking, "http://"+at.Addr+"/check")
	})
	dom, log := charttest.Visit(t, page, 10*time.Second)
	if !strings.Contains(dom, `data-tries="32"`) {
		t.Fatalf("the page has not tried everything:\n%s\n%s", dom, log)
	}
	const answers = `ratelimiter_check_requests_total{api="check",code="`
	samples := p.Metrics()
	if refused := samples[answers+`403"}`]; refused < 10 {
		t.Errorf("%v questions were refused: the page does not reach Weir\n%s", refused, log)
	}
	for name, n := range samples {
		code, counted := strings.CutPrefix(name, answers)
		if counted && n > 0 && code != `400"}` && code != `403"}` {
			t.Errorf("a page was answered: %s", name)
		}
	}
	if decided := samples["ratelimiter_store_decisions_total"]; decided > 0 {
		t.Errorf("a page was charged for %v requests", decided)
	}
}
