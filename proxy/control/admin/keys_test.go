package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/data/strict"
	"weir/internal/net/http1"
	"weir/internal/program/service"
	"weir/internal/test/testkit"
	"weir/proxy/rules/keys"
	"weir/proxy/rules/rule"
	"weir/proxy/rules/tally"
)

const keyRules = `rules:
  - {id: per-partner, key: [header:X-Partner], limit: {algorithm: fixed, limit: 5, window: 1}}
  - {id: both, key: [header:X-Partner, method], limit: {algorithm: fixed, limit: 5, window: 1}}
  - {id: everybody, key: [global], limit: {algorithm: fixed, limit: 5, window: 1}}
  - {id: net, key: [ip/24], limit: {algorithm: fixed, limit: 5, window: 1}}
  - {id: net6, key: [ip/48, host, path, "cookie:c", "query:q"], limit: {algorithm: fixed, limit: 5, window: 1}}
  - {id: login, key: [header:Authorization], limit: {algorithm: fixed, limit: 5, window: 1}}
  - {id: address, key: [ip], limit: {algorithm: fixed, limit: 5, window: 1}}
`

func mustRead(t testing.TB, text string) *rule.Set {
	t.Helper()
	return testkit.Must(rule.Read([]byte(text), rule.Options{}))(t)
}

// A keyLog is a KeyStore that records its calls.
type keyLog struct {
	board *tally.TopKeys
	done  []string
	away  bool
}

var errKeysAway = errors.New("redis is unavailable")

func (l *keyLog) Top(rule string) (busiest, refused tally.Ranking) {
	return l.board.Ranking(epoch, rule)
}

func (l *keyLog) Forget(rule string, key []byte) (bool, error) {
	if l.away {
		return false, errKeysAway
	}
	l.done = append(l.done, fmt.Sprintf("forget %s %q", rule, key))
	return string(key) == "4:acme", nil
}

func (l *keyLog) Add(rule string, key []byte, n int64) (bool, error) {
	if l.away {
		return false, errKeysAway
	}
	l.done = append(l.done, fmt.Sprintf("add %s %q %d", rule, key, n))
	return string(key) == "4:acme", nil
}

// keyHandler is the endpoints over a store.
func keyHandler(t *testing.T, l *keyLog) http.Handler {
	set := mustRead(t, keyRules)
	own := service.NewEndpoints(&service.Env{Guard: &service.AccessGuard{Open: true}})
	(&Keys{Set: func() *rule.Set { return set }, Store: l, HalfLife: time.Minute}).Register(own)
	return own
}

func TestKeysEdit(t *testing.T) {
	l := &keyLog{board: tally.NewTopKeys(time.Minute, maphash.MakeSeed())}
	l.board.SetRules([]string{"login"})
	secret := keys.AppendSecret(nil, []byte("bearer topsecret"))
	l.board.Observe(epoch, 0, secret, false)
	h := keyHandler(t, l)
	for _, test := range []struct {
		method, query, body string
		status              int
		answer              string
		done                string // with the store
	}{
		{"DELETE", "rule=per-partner&key=acme", "", 200, `{"rule":"per-partner","key":["acme"],"changed":true}`,
			`forget per-partner "4:acme"`},
		{"DELETE", "rule=per-partner&key=", "", 200, `{"rule":"per-partner","key":[""],"changed":false}`,
			`forget per-partner "0:"`},
		{"DELETE", `rule=per-partner&key=["acme"]`, "", 200, `"changed":true`, `forget per-partner "4:acme"`},
		{"DELETE", `rule=per-partner&key=[null]`, "", 200, `"key":[null]`, `forget per-partner "-"`},
		{"DELETE", `rule=per-partner&key=["[x"]`, "", 200, `"key":["[x"]`, `forget per-partner "2:[x"`},
		{"DELETE", `rule=per-partner&key=` + url.QueryEscape(`a\xff\\`), "", 200, `"key":["a\\xff\\\\"]`,
			`forget per-partner "3:a\xff\\"`},
		{"DELETE", `rule=both&key=["acme","GET"]`, "", 200, `"key":["acme","GET"]`, `forget both "4:acme3:GET"`},
		{"DELETE", "rule=everybody", "", 200, `"key":[]`, `forget everybody ""`},
		{"DELETE", "rule=everybody&key=[]", "", 200, `"key":[]`, `forget everybody ""`},
		{"DELETE", "rule=global", "", 200, `{"rule":"global","key":[]`, `forget global ""`},
		{"DELETE", "rule=net&key=192.0.2.7", "", 200, `"key":["192.0.2.0/24"]`, `forget net "12:192.0.2.0/24"`},
		{"DELETE", "rule=net&key=192.0.2.0/24", "", 200, `"key":["192.0.2.0/24"]`, `forget net "12:192.0.2.0/24"`},
		{"DELETE", "rule=net&key=2001:db8:1:2:3::4", "", 200, `"key":["2001:db8:1:2::/64"]`,
			`forget net "17:2001:db8:1:2::/64"`},
		{"DELETE", "rule=address&key=::ffff:192.0.2.7", "", 200, `"key":["192.0.2.7"]`, `forget address "9:192.0.2.7"`},
		{"DELETE", `rule=net6&key=["2001:db8:1:2::3","EXAMPLE.com.:80","//a/./b","x","y"]`, "", 200,
			`"key":["2001:db8:1::/48","example.com","/a/b","sha256:2d711642b726","y"]`,
			fmt.Sprintf("forget net6 %q", "15:2001:db8:1::/4811:example.com4:/a/b"+
				string(keys.AppendSecret(nil, []byte("x")))+"1:y")},
		{"DELETE", "rule=login&key=Bearer%20topsecret", "", 200,
			`{"rule":"login","key":["sha256:c859cca49c8b"],"changed":false}`, fmt.Sprintf("forget login %q", secret)},
		{"DELETE", "rule=login&key=sha256:c859cca49c8b", "", 200, `"key":["sha256:c859cca49c8b"]`,
			fmt.Sprintf("forget login %q", secret)},
		{"POST", "", `{"rule":"login","key":"sha256:c859cca49c8b","add":5}`, 200, `"key":["sha256:c859cca49c8b"]`,
			fmt.Sprintf("add login %q 5", secret)},
		{"POST", "", `{"rule":"login","key":"Bearer topsecret","add":5}`, 200, `"key":["sha256:c859cca49c8b"]`,
			fmt.Sprintf("add login %q 5", secret)},
		{"DELETE", "rule=login&key=sha256:000000000000", "", 400,
			`its digest in a key that GET /config/keys currently lists","path":"key"`, ""},
		{"DELETE", "rule=login&key=sha256:c859cca49c8ba", "", 200, `"changed":false`,
			fmt.Sprintf("forget login %q", keys.AppendSecret(nil, []byte("sha256:c859cca49c8ba")))},
		{"DELETE", "rule=per-partner&key=sha256:c859cca49c8b", "", 200, `"key":["sha256:c859cca49c8b"]`,
			`forget per-partner "19:sha256:c859cca49c8b"`},
		{"POST", "", `{"rule":"per-partner","key":"acme","add":5}`, 200,
			`{"rule":"per-partner","key":["acme"],"changed":true}`, `add per-partner "4:acme" 5`},
		{"POST", "", `{"rule":"per-partner","key":["acme"],"add":9007199254740992}`, 200, `"changed":true`,
			`add per-partner "4:acme" 9007199254740992`},
		{"POST", "", `{"rule":"per-partner","key":null,"add":1}`, 200, `"key":[null]`, `add per-partner "-" 1`},
		{"POST", "", `{"rule":"global","add":1}`, 200, `"key":[]`, `add global "" 1`},

		{"DELETE", "", "", 400, `"path":"rule"`, ""},
		{"DELETE", "rule=nobody&key=acme", "", 404, `there is no \"nobody\"","path":"rule"`, ""},
		{"DELETE", "rule=per-partner", "", 400,
			`must have 1 values, one for each part of the rule's key [header:X-Partner], has 0","path":"key"`, ""},
		{"DELETE", "rule=global&key=acme", "", 400, `must have 0 values`, ""},
		{"DELETE", "rule=both&key=acme", "", 400, `[header:X-Partner method], has 1","path":"key"`, ""},
		{"DELETE", "rule=both&key=acme&key=GET", "", 400, `must be given once`, ""},
		{"DELETE", "rule=per-partner&key=[acme]", "", 400, `"path":"key`, ""},
		{"DELETE", "rule=per-partner&key=[1]", "", 400, `"path":"key[0]"`, ""},
		{"DELETE", `rule=per-partner&key=a\x`, "", 400, `two hexadecimal digits for a byte","path":"key[0]"`, ""},
		{"DELETE", `rule=per-partner&key=a\xgg`, "", 400, `"path":"key[0]"`, ""},
		{"DELETE", "rule=net&key=example.com", "", 400, `must be an address or a network, such as 192.0.2.7`, ""},
		{"DELETE", "rule=net&key=10.0.0.0/8", "", 400,
			`a network of /24 as the rule counts them, is \"10.0.0.0/8\"","path":"key[0]"`, ""},
		{"POST", "", `{"rule":"per-partner","key":"acme"}`, 400,
			`must be a whole number from 1 to 9007199254740992, is 0","path":"add"`, ""},
		{"POST", "", `{"rule":"per-partner","key":"acme","add":-1}`, 400, `"path":"add"`, ""},
		{"POST", "", `{"rule":"per-partner","key":"acme","add":9007199254740993}`, 400, `"path":"add"`, ""},
		{"POST", "", `{"rule":"per-partner","key":{},"add":1}`, 400, `"path":"key"`, ""},
		{"POST", "", `{"rule":"per-partner","key":5,"add":1}`, 400, `"path":"key"`, ""},
		{"POST", "", `{"rule":"per-partner","key":"acme","add":1,"more":1}`, 400, `"path":"more"`, ""},
		{"POST", "", `{"rule":"nobody","key":"acme","add":1}`, 404, `"path":"rule"`, ""},
		{"POST", "", `{"rule":"nobody","key":5,"add":0}`, 404, `"path":"rule"`, ""},
		{"POST", "", `{"rule":"per-partner","key":5,"add":0}`, 400, `"path":"add"`, ""},
		{"POST", "", `{`, 400, `"error"`, ""},
	} {
		query := strings.NewReplacer(`"`, "%22", "[", "%5B", "]", "%5D", `\`, "%5C").Replace(test.query)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(test.method, "/config/keys?"+query, strings.NewReader(test.body)))
		if w.Code != test.status || !strings.Contains(w.Body.String(), test.answer) {
			t.Errorf("%s %s %s: %d %s, want %d with %s", test.method, test.query, test.body, w.Code, w.Body, test.status,
				test.answer)
		}
		if got := strings.Join(l.done, ", "); got != test.done {
			t.Errorf("%s %s %s: the store was told %s, want %s", test.method, test.query, test.body, got, test.done)
		}
		l.done = nil
	}
	l.away = true
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("DELETE", "/config/keys?rule=global", nil))
	if w.Code != 503 || !strings.Contains(w.Body.String(), "redis is unavailable") {
		t.Errorf("with the store away: %d %s, want 503", w.Code, w.Body)
	}
}

// The busiest and the most refused keys are listed, up to a bound, in a form that can be read
// back.
func TestKeysList(t *testing.T) {
	l := &keyLog{board: tally.NewTopKeys(time.Minute, maphash.MakeSeed())}
	l.board.SetRules([]string{"per-partner", "both", "global", "login"})
	touch := func(i int, key string, times int, refused bool) {
		for range times {
			l.board.Observe(epoch, i, []byte(key), refused)
		}
	}
	touch(0, "4:acme", 3, false)
	touch(0, "-", 2, true)
	touch(0, "3:a\xff\\", 1, false)
	touch(0, "200:"+strings.Repeat("x", 200), 4, false)
	touch(1, "4:acme3:GET", 1, true)
	touch(2, "", 7, false)
	touch(3, string(keys.AppendSecret(nil, []byte("bearer topsecret"))), 2, true)
	touch(3, string(keys.AppendSecret(nil, []byte("bearer other"))), 1, false)
	h := keyHandler(t, l)
	long := strings.Repeat("x", tally.KeyBytesMax-len("200:"))
	for _, test := range []struct {
		query  string
		status int
		want   string
	}{
		{"rule=per-partner", 200, `{"rule":"per-partner","parts":["header:X-Partner"],"halfLife":60,` +
			`"busiest":{"total":10,"keys":[{"key":["` + long +
			`"],"cut":true,"count":4,"error":0},{"key":["acme"],"count":3,"error":0},` +
			`{"key":[null],"count":2,"error":0},{"key":["a\\xff\\\\"],"count":1,"error":0}],"missed":0},` +
			`"refused":{"total":2,"keys":[{"key":[null],"count":2,"error":0}],"missed":0}}`},
		{"rule=per-partner&limit=1", 200, `"busiest":{"total":10,"keys":[{"key":["` + long +
			`"],"cut":true,"count":4,"error":0}],"missed":0}`},
		{"rule=both", 200,
			`"parts":["header:X-Partner","method"],"halfLife":60,"busiest":{"total":1,"keys":[{"key":["acme","GET"]`},
		{"rule=global", 200, `{"rule":"global","parts":[],"halfLife":60,"busiest":{"total":7,"keys":[{"key":[],"count":7,"error":0}],"missed":0},"refused":{"total":0,"keys":[],"missed":0}}`},
		{"rule=login&limit=1", 200, `"busiest":{"total":3,"keys":[{"key":["sha256:c859cca49c8b"],"count":2,"error":0}],"missed":0},"refused":{"total":2,"keys":[{"key":["sha256:c859cca49c8b"],"count":2`},
		{"rule=login&key=Bearer%20other", 200,
			`"busiest":{"total":3,"keys":[{"key":["sha256:a43e60cf4b2f"],"count":1,"error":0}],"missed":0},"refused":{"total":2,"keys":[],"missed":0}}`},
		{"rule=login&key=sha256:c859cca49c8b", 200, `"keys":[{"key":["sha256:c859cca49c8b"],"count":2`},
		{"rule=per-partner&key=acme", 200,
			`"busiest":{"total":10,"keys":[{"key":["acme"],"count":3,"error":0}],"missed":0},"refused":{"total":2,"keys":[],"missed":0}}`},
		{"rule=both&key=acme", 400, `has 1","path":"key"`},
		{"rule=everybody", 200, `"busiest":{"total":0,"keys":[],"missed":0}`},
		{"", 400, `"path":"rule"`},
		{"rule=nobody", 404, `"path":"rule"`},
		{"rule=global&limit=0", 400, `"path":"limit"`},
		{"rule=global&limit=1001", 400, `must be a whole number from 1 to 1000, is \"1001\"`},
		{"rule=global&limit=x", 400, `"path":"limit"`},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/config/keys?"+test.query, nil))
		if w.Code != test.status || !strings.Contains(w.Body.String(), test.want) {
			t.Errorf("%s: %d %s\nwant %d with %s", test.query, w.Code, w.Body, test.status, test.want)
		}
	}
}

// The values that a client sends make the key by which rules count it.
func TestKeyIsThatOfRequests(t *testing.T) {
	set := mustRead(t, keyRules)
	var h http1.Head
	reader := http1.NewRequestReader(&http1.Limits{})
	request := "GET //a/./b?q=a%20b HTTP/1.1\r\nHost: EXAMPLE.com.:80\r\nX-Partner: Acme \\ Söhne\r\nCookie: " +
		"c=\"d\"\r\nAuthorization: Basic x\r\n\r\n"
	if _, err := reader.Next([]byte(request), &h); err != nil {
		t.Fatal(err)
	}
	for _, client := range []string{"192.0.2.7", "2001:db8:1:2:3::4"} {
		var x rule.Scratch
		matched := set.Match((*keys.Request)(&h), netip.MustParseAddr(client), &x)
		if len(matched) != set.Len() {
			t.Fatalf("%d of %d rules apply", len(matched), set.Len())
		}
		given := map[string][]string{
			"per-partner": {`Acme \\ Söhne`}, "both": {`Acme \\ Söhne`, "GET"}, "everybody": {}, "net": {client},
			"net6": {client, "EXAMPLE.com.:80", "//a/./b", "d", "a b"}, "address": {client}, "login": {"Basic x"},
		}
		for _, match := range matched {
			var values []*string
			for _, word := range given[match.Rule.ID] {
				values = append(values, &word)
			}
			parts, _ := (&Keys{Set: func() *rule.Set { return set }}).parts(match.Rule.ID)
			key, err := keyOf(parts, values)
			if err != nil || string(key) != string(match.Key) {
				t.Errorf("rule %s: the values make %q, %v; the request has %q", match.Rule.ID, key, err, match.Key)
			}
			if slices.ContainsFunc(parts, keys.Part.Secret) {
				continue
			}
			again, err := keyOf(parts, valuesOf(match.Key))
			if err != nil || string(again) != string(match.Key) {
				t.Errorf("rule %s: key %q reads back as %q, %v", match.Rule.ID, match.Key, again, err)
			}
		}
	}
}

// Any key can be told and read back.
func FuzzKeyForm(f *testing.F) {
	f.Add([]byte("acme"), []byte("\xff\\x00"), true)
	f.Add([]byte(""), []byte("[\"\u2028"), false)
	f.Fuzz(func(t *testing.T, one, two []byte, missing bool) {
		key := keys.AppendPart(nil, one)
		if missing {
			key = keys.AppendMissingPart(key)
		}
		key = keys.AppendPart(key, two)
		text := testkit.Must(json.Marshal(valuesOf(key)))(t)
		values, err := readValue(strict.Raw(text))
		if err != nil {
			t.Fatalf("%q is told as %s, which is not read: %v", key, text, err)
		}
		parts := make([]keys.Part, len(values))
		for i := range parts {
			parts[i], _ = keys.ParsePart("header:X")
		}
		if again, err := keyOf(parts, values); err != nil || string(again) != string(key) {
			t.Fatalf("%q is told as %s, which is read as %q, %v", key, text, again, err)
		}
	})
}
