package port

import (
	"context"
	"errors"
	"strings"
	"testing"

	"weir/internal/test/testkit"
	"weir/proxy/store"
	"weir/proxy/store/simredis"
)

// A recorder is a store that answers edits of keys with its fields, and names those that it was asked for.
type recorder struct {
	store.Store
	changed bool
	err     error
	edits   chan string
}

func (r *recorder) Forget(rule string, _ []byte) (bool, error) { return r.edited("forget " + rule) }

func (r *recorder) Add(rule string, _ []byte, _ int64) (bool, error) { return r.edited("add " + rule) }

func (r *recorder) edited(what string) (bool, error) {
	r.edits <- what
	return r.changed, r.err
}

// A sidecar does not say whether the key of a descriptor has a limit per second. With a second store for those, an
// edit of such a key goes to the first store, and to the second if the first has not changed it.
func TestEditsOfSidecars(t *testing.T) {
	failed := errors.New("failed")
	for _, test := range []struct {
		body          string
		first, second recorder // with their answers
		where         string   // what the first is asked for, and the second
		status        int
		answer        string
	}{
		{`{"rule":"r","key":"YQ==","add":1}`, recorder{}, recorder{}, "add r|", 200, `{"changed":false}`},
		{`{"rule":"rls/d","key":"YQ==","add":1}`, recorder{}, recorder{changed: true}, "add rls/d|add rls/d", 200,
			`{"changed":true}`},
		{`{"rule":"rls/d","key":"YQ=="}`, recorder{changed: true}, recorder{}, "forget rls/d|", 200,
			`{"changed":true}`},
		{`{"rule":"rls/d","key":"YQ==","add":1}`, recorder{err: failed}, recorder{changed: true}, "add rls/d|add rls/d",
			200, `{"changed":true}`},
		{`{"rule":"rls/d","key":"YQ==","add":1}`, recorder{}, recorder{err: failed}, "add rls/d|add rls/d", 200,
			`{"changed":false}`},
		{`{"rule":"rls/d","key":"YQ==","add":1}`, recorder{err: failed}, recorder{}, "add rls/d|add rls/d", 503, "failed"},
	} {
		for _, r := range []*recorder{&test.first, &test.second} {
			s := testkit.Must(simredis.NewStore(simredis.Config{}))(t)
			t.Cleanup(s.Close)
			r.Store, r.edits = s, make(chan string, 1)
		}
		p := startWith(t, Config{Limits: new(Limits), Store: &test.first, PerSecond: &test.second})
		answer := testkit.Dial(t, p.Addr().String()).Ask(request("POST", "/v1/edit", "admin", test.body), test.status)
		p.Drain(context.Background())
		close(test.first.edits)
		close(test.second.edits)
		if where := <-test.first.edits + "|" + <-test.second.edits; where != test.where {
			t.Errorf("%s: the stores were asked for %s, want %s", test.body, where, test.where)
		}
		if !strings.Contains(answer, test.answer) {
			t.Errorf("%s: answered %s, want %s", test.body, answer, test.answer)
		}
	}
}
