package delivery

import (
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"weir/internal/test/testkit"
	"weir/proxy/deferred"
	"weir/proxy/rules/decide"
	"weir/proxy/rules/keys"
)

// A client that has cancelled a request still sees its state, and others do not. The request itself
// is no longer stored.
func TestCancelledIsSeen(t *testing.T) {
	t.Parallel()
	d, _ := dispatcher(t)
	defer func() { _ = d.Close(t.Context()) }()
	p := policy(t, "rules:\n- {id: shops, match: {methods: [POST], path: /}, key: [\"header:X-Shop\"], "+
		"limit: {algorithm: fixed, limit: 1, window: 1}, defer: {}}\n")
	d.cfg.SameClient, d.cfg.Policy, d.cfg.Trusts = true, func() *decide.Policy { return p }, netip.Prefix{}.Contains
	d.cfg.ForwardingFields = testkit.Must(keys.NewForwardingFields(nil))(t)
	id := d.stock(t, "shops", "1:a")
	call := func(method, shop string, want int) string {
		t.Helper()
		r, w := httptest.NewRequest(method, "/deferred/"+id.String(), nil), httptest.NewRecorder()
		r.SetPathValue("id", id.String())
		r.Header.Set("X-Shop", shop)
		give := d.status
		if method == "DELETE" {
			give = d.cancel
		}
		d.asked(give)(w, r)
		if w.Code != want {
			t.Errorf("%s by %s is answered %d, want %d", method, shop, w.Code, want)
		}
		return w.Body.String()
	}
	call("DELETE", "b", 404)
	call("DELETE", "a", 204)
	call("GET", "b", 404)
	if got := call("GET", "a", 200); !strings.Contains(got, `"state":"cancelled"`) || strings.Contains(got, `"result"`) {
		t.Errorf("the state is shown as %s", got)
	}
	if e := read(t, d.opened(), id); e.State != deferred.Cancelled || len(e.Head)+len(e.Body) > 0 {
		t.Errorf("%s with %d bytes of the request", e.State, len(e.Head)+len(e.Body))
	}
}
