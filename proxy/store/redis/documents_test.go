package redis

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"weir/internal/test/testkit"
	"weir/proxy/store"
	"weir/proxy/store/redis/redistest"
	"weir/proxy/store/storetest"
)

const docName = "ratelimiter:config"

func TestSharedState(t *testing.T) {
	t.Parallel()
	_, c, _ := newWorld(t)
	storetest.Documents(t, c)
	storetest.Leases(t, c)
}

// What others write over a document is noticed, and may be replaced.
func TestDocuments(t *testing.T) {
	t.Parallel()
	s, c, _ := newWorld(t)
	read := func() string {
		t.Helper()
		doc := testkit.Must(c.Read(docName))(t)
		return fmt.Sprintf("%d %s", doc.Version, doc.Body)
	}
	write := func(version int64, body string) string {
		t.Helper()
		doc, written, err := c.CompareAndSet(docName, version, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%v %d %s", written, doc.Version, doc.Body)
	}
	do := func(words ...string) func() string {
		return func() string { s.Do(words...); return "" }
	}
	set := func(version int64, body string) func() string {
		return func() string { return write(version, body) }
	}
	for i, step := range []struct {
		do         func() string
		want, then string
	}{
		{set(1, `{"a":1}`), "false 0 ", "0 "},
		{set(0, `{"a":1}`), `true 1 {"a":1}`, `1 {"a":1}`},
		{set(0, `{"a":2}`), `false 1 {"a":1}`, `1 {"a":1}`},
		{set(1, "{\"a\":\n\"\\u0000\x00}}\"}"), "true 2 {\"a\":\n\"\\u0000\x00}}\"}", "2 {\"a\":\n\"\\u0000\x00}}\"}"},
		{set(1, `{}`), "false 2 {\"a\":\n\"\\u0000\x00}}\"}", "2 {\"a\":\n\"\\u0000\x00}}\"}"},
		{do("set", docName, "garbage"), "", "-1 garbage"},
		{set(2, `{}`), "false -1 garbage", "-1 garbage"},
		{set(store.UnknownVersion, `{}`), "true 1 {}", "1 {}"},
		{do("set", docName, `{"version":0,"document":{}}`), "", `-1 {"version":0,"document":{}}`},
		{do("del", docName), "", "0 "},
		{do("lpush", docName, "x"), "", "-1 "},
		{set(0, `{}`), "false -1 ", "-1 "},
		{set(store.UnknownVersion, `{"b":1}`), `true 1 {"b":1}`, `1 {"b":1}`},
		{do("set", docName, `{"version":7,"document":"`), "", `-1 {"version":7,"document":"`},
		{do("setrange", docName, strconv.Itoa(store.DocumentBytesMax+100), `"}`), "", "-1 "}, // too large
		{set(store.UnknownVersion, `{}`), "true 1 {}", "1 {}"},
		{do("set", docName, `{"version":+7,"document":{}}`), "", `-1 {"version":+7,"document":{}}`},
		{set(store.UnknownVersion, `{}`), "true 1 {}", "1 {}"},
		{do("set", docName, `{"version":10000000000000000000,"document":{}}`), "",
			`-1 {"version":10000000000000000000,"document":{}}`},
		{set(store.UnknownVersion, `{}`), "true 1 {}", "1 {}"},
		{do("flushall"), "", "0 "},
	} {
		if got := step.do(); got != step.want {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
		if got := read(); got != step.then {
			t.Errorf("after step %d: %q, want %q", i, got, step.then)
		}
	}
}

// Nothing is connected once the client is closed.
func TestDocumentsAfterClose(t *testing.T) {
	t.Parallel()
	c := newTestStore(t, config(redistest.Start(t)))
	c.Close()
	if _, err := c.Read(docName); err == nil || c.back.documents.conn != nil {
		t.Errorf("read after Close: %v, connected %v", err, c.back.documents.conn != nil)
	}
}

// Every client learns of every change, also of one that was made while Redis was
// away, and of one that is lost.
func TestWatch(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var mu sync.Mutex
	seen := map[int]string{}
	var clients []*testStore
	for i := range 2 {
		c := newTestStore(t, config(s))
		clients = append(clients, c)
		c.Watch(docName, func(doc store.Document) {
			mu.Lock()
			defer mu.Unlock()
			seen[i] = fmt.Sprintf("%d %s", doc.Version, doc.Body)
		})
	}
	all := func(want string) {
		t.Helper()
		testkit.Eventually(t, fmt.Sprintf("all have seen %q", want), func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(seen) == 2 && seen[0] == want && seen[1] == want
		})
	}
	all("0 ")
	if _, written, err := clients[0].CompareAndSet(docName, 0, []byte("1")); !written || err != nil {
		t.Fatal(written, err)
	}
	all("1 1")
	s.Do("flushall")
	all("0 ")
	if _, written, err := clients[1].CompareAndSet(docName, 0, []byte("2")); !written || err != nil {
		t.Fatal(written, err)
	}
	all("1 2") // the version that the first had, but another body
	s.Kill()
	testkit.Eventually(t, "an idle client notices",
		func() bool { return !clients[0].Connected() && !clients[1].Connected() })
	if _, err := clients[0].Read(docName); err == nil || !strings.Contains(err.Error(), "redis is unavailable") {
		t.Errorf("read: %v", err)
	}
	if _, _, err := clients[0].CompareAndSet(docName, 0, nil); err == nil {
		t.Error("written while redis is away")
	}
	s.Start()
	all("0 ")
}
