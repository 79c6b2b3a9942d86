package rule_test

import (
	"testing"

	"weir/proxy/rule"
)

// The limit of a key is its client's, when the file of clients has him.
func TestLimitOf(t *testing.T) {
	clients, err := rule.ReadClients([]byte(`{"acme":{"algorithm":"fixed","limit":7,"window":1}}`))
	if err != nil {
		t.Fatal(err)
	}
	set, err := rule.Read([]byte(`rules: [{id: a, key: ["header:X"], clients: true, limit: {algorithm: fixed, limit: 5, window: 1}}, {id: b, key: ["header:X"], limit: {algorithm: fixed, limit: 3, window: 1}}]`),
		rule.Options{Clients: clients})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		index int
		key   []byte
		want  int64
	}{
		{0, rule.AppendPart(nil, []byte("acme")), 7},
		{0, rule.AppendPart(nil, []byte("other")), 5},
		{0, rule.AppendMissing(nil), 5},
		{1, rule.AppendPart(nil, []byte("acme")), 3},
	} {
		if got := set.LimitOf(test.index, test.key).Permits(); got != test.want {
			t.Errorf("rule %d, key %s: %d, want %d", test.index, test.key, got, test.want)
		}
	}
}
