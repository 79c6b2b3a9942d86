package redis

import (
	"reflect"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/store"
	"weir/proxy/store/redis/redistest"
)

// A Client runs scripts, also those that the server has forgotten, and connects again after an
// outage.
func TestClient(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--appendonly", "no")
	l := testkit.Must(NewClient(config(s), time.Minute))(t)
	t.Cleanup(l.Close)
	add := NewScript("return {redis.call('INCRBY', KEYS[1], ARGV[1]), 'text', false, {}}")
	run := func() Reply { return l.Run(background, "k", ScriptCall{add, []string{"2"}})[0] }
	for i := range int64(3) {
		if r := run(); r.Err != nil || !reflect.DeepEqual(r.Value, []any{2 * (i + 1), "text", nil, []any{}}) {
			t.Fatalf("%#v", r)
		}
		s.Do("script", "flush")
	}
	both := l.Run(background, "k", ScriptCall{NewScript("return redis.error_reply('NO way')"), nil},
		ScriptCall{NewScript("return false"), nil})
	if f := l.Fault(both[0].Err); f.Code != "NO" || f.Class != store.ItemFault || both[1] != (Reply{}) {
		t.Errorf("%+v, %+v", f, both)
	}
	if settings, err := l.Settings(background, "append*"); err != nil || len(settings) != 1 ||
		settings[0]["appendonly"] != "no" {
		t.Errorf("%v, %v", settings, err)
	}
	s.Kill()
	if f := l.Fault(run().Err); f.Class != store.OutageFault {
		t.Errorf("without a server: %+v", f)
	}
	s.Start()
	testkit.Eventually(t, "it runs again", func() bool { return run().Err == nil })
	l.Close()
	if r := run(); r.Err == nil {
		t.Error("runs after Close")
	}
}

// A Client finds out that a server has become a node of a Cluster.
func TestClientOfCluster(t *testing.T) {
	t.Parallel()
	s := redistest.StartNode(t)
	s.Do("cluster", "addslotsrange", "0", "16383")
	testkit.Eventually(t, "the cluster is formed", func() bool {
		out, err := s.Try("set", "k", "1")
		return err == nil && out == "OK"
	})
	l := testkit.Must(NewClient(config(s), time.Minute))(t)
	t.Cleanup(l.Close)
	if r := l.Run(background, "{q}k", ScriptCall{NewScript("return redis.call('SET', KEYS[1] .. 2, '1').ok"),
		nil})[0]; r.Err != nil || r.Value != "OK" {
		t.Errorf("%+v", r)
	}
}
