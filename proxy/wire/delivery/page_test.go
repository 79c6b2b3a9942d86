package delivery

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/data/chart/charttest"
	"weir/internal/program/service"
	"weir/internal/test/testkit"
	"weir/proxy/deferred"
	"weir/proxy/deferred/file"
)

// browsing is how much of its own time the page gets: until the operator is done, on any machine.
const browsing = 70 * time.Second

// operator uses the page as a person does: gives the token, pauses the rule, drops a dead letter
// on second thoughts, has one delivered and then the others, and lets the rule go on.
const operator = `
	const press = async text => { let b; await until(() => b = [...document.querySelectorAll("button")].find(b => b.textContent === text)); b.click(); };
	const seen = text => until(() => document.body.innerText.includes(text));
	const rule = () => [...at("rules").rows[1].cells].map(c => c.innerText).join("|");
	await until(() => !at("ask").hidden);
	at("token").value = "s3cr3t";
	at("ask").requestSubmit();
	await seen("4 dead letters");
	document.body.dataset.letters = at("letters").innerHTML;
	await press("Pause");
	await until(() => rule().includes("paused"));
	document.body.dataset.paused = rule();
	window.confirm = text => { document.body.dataset.asked = text; return false; };
	await press("Drop");
	window.confirm = () => true;
	await press("Drop");
	await seen("Dropped: 1");
	await seen("3 dead letters");
	await press("Retry");
	await seen("Waiting again: 1");
	await seen("2 dead letters");
	await press("Retry all");
	await seen("Waiting again: 2");
	await until(() => at("state").textContent === "paused");
	await press("Resume");
	await seen("is resumed");
	await until(() => at("state").textContent === "delivering");
	document.body.dataset.rule = rule();
`

// Operators see dead letters and have them wait again.
func TestPage(t *testing.T) {
	t.Parallel()
	q := testkit.Must(file.Open(time.Now(), file.Config{Path: filepath.Join(t.TempDir(), "queue"),
		Limits: deferred.Limits{Entries: 100, Bytes: 1 << 20, Share: 1}}))(t)
	defer q.Close()
	kill(t, q, "<b>1</b>", "<b>2</b>", "<b>3</b>", "<b>4</b>")
	d := testkit.Must(New(Config{Open: func() (deferred.Queue, error) { return q, nil }}))(t)
	own := service.NewEndpoints(&service.Env{Guard: &service.AccessGuard{Token: "s3cr3t"}})
	d.RegisterEndpoints(own)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		own.ServeHTTP(w, r)
		if strings.HasSuffix(r.URL.Path, "/page") {
			_, _ = w.Write([]byte(charttest.Script(operator)))
		}
	}))
	defer server.Close()
	dom := charttest.DOM(t, server.URL+"/config/deferred/page", browsing)
	testkit.Contains(t, dom, "status 503, &amp;lt;b&amp;gt;2&amp;lt;/b&amp;gt;", " paused|0|0|–|4|0|0|0|0|Resume",
		"|3|0|", "|0|0|0|0|0|Pause", `data-asked="Drop this request? Dropped requests`)
	if stats := q.Stats().Rules[0]; stats.Paused || stats.States[deferred.Waiting].Entries != 3 {
		t.Errorf("the queue has %+v, the page is\n%s", stats, dom)
	}
}

// kill has q keep an entry for each error, whose only attempt failed with it.
func kill(t *testing.T, q deferred.Queue, errors ...string) {
	t.Helper()
	for _, text := range errors {
		put(t, q, deferred.Entry{Rule: "<orders>", Remote: netip.MustParseAddrPort("10.0.0.1:80"),
			Head: []byte("POST / HTTP/1.1\r\n\r\n")}, func() {})
		claimed, _, err := q.Claim(t.Context(), time.Now(), 1)
		if err != nil || len(claimed) != 1 {
			t.Fatalf("claimed %d, %v", len(claimed), err)
		}
		settled := make(chan error, 1)
		q.Settle(time.Now(), &deferred.Settlement{Lease: claimed[0].Lease, To: deferred.Failed, Attempt: true,
			Keep: time.Hour,
			Last: deferred.LastAttempt{At: time.Now(), Status: 503, Error: text}, Done: func(err error) { settled <- err }})
		if err := testkit.Receive(t, settled, "the settlement"); err != nil {
			t.Fatal(err)
		}
	}
}

// A client's secret in the URL that it wants to be called back at is not shown to operators.
func TestCallbackIsMasked(t *testing.T) {
	t.Parallel()
	c := newCalling(t)
	c.starts(0)
	if err := c.d.opened().Pause(t.Context(), "orders", true); err != nil {
		t.Fatal(err)
	}
	c.accepts("https://nobody.test/paid?token=s3cr3t")
	r := httptest.NewRequest("GET", "/config/deferred", nil)
	l, err := c.d.list(httptest.NewRecorder(), r)
	if err != nil || len(l.(*listing).Entries) != 1 {
		t.Fatalf("listed %+v, %v", l, err)
	}
	if got := l.(*listing).Entries[0].Callback.URL; got != "https://nobody.test/paid?token=***" {
		t.Errorf("the URL is shown as %s", got)
	}
}
