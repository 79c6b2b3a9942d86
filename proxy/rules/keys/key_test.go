package keys_test

import (
	"strings"
	"testing"

	"weir/proxy/rules/keys"
)

// A key identifies a client only by parts that the request has.
func TestIdentifies(t *testing.T) {
	t.Parallel()
	f := func(want bool, parts string, values ...string) {
		t.Helper()
		var all []keys.Part
		var key []byte
		for i, text := range strings.Fields(parts) {
			p, err := keys.ParsePart(text)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, p)
			switch {
			case i >= len(values): // global has none
			case values[i] == "missing":
				key = keys.AppendMissingPart(key)
			case p.Secret():
				key = keys.AppendSecret(key, []byte(values[i]))
			default:
				key = keys.AppendPart(key, []byte(values[i]))
			}
		}
		if keys.IdentifiesClient(all, key) != want {
			t.Errorf("key %q of %q: identifies a client: %t, want %t", key, parts, !want, want)
		}
	}
	f(false, "")
	f(false, "global")
	f(false, "path method host query:a", "/a", "GET", "a.example", "a")
	f(true, "path header:A", "/a", "a")
	f(false, "header:A path", "missing", "/a")
	f(false, "header:A path", "", "/a")
	f(false, "cookie:b secret:header:A", "", "")
	f(true, "header:A cookie:b", "missing", "b")
	f(true, "query:a secret:query:b", "missing", "b")
	f(true, "header:Authorization path", "a", "/a")
	f(true, "ip path", "192.0.2.1", "/a")
	f(true, "ip/64", "192.0.2.1")
	f(true, "ip/128", "2001:db8::1")
	f(false, "ip/24", "192.0.2.0/24")
	f(false, "ip/56", "2001:db8::/56")
	f(false, "ip", "missing")
}
