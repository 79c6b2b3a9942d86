package store_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/proxy/limit"
	"weir/proxy/store"
)

// No choice of bytes in a rule or a key makes two pairs meet.
func TestKeysDoNotCollide(t *testing.T) {
	parts := []string{"", "a", "ab", "b", ":", "1", "1:", "1:a", "0:", "a1:b", "2:ab", "#", "*", "\x00", "a\x00", " ", "é",
		strings.Repeat("a", 127), strings.Repeat("a", 128), strings.Repeat("a", 129), strings.Repeat("a", 130), strings.Repeat("a", 10_000)}
	names := map[string]string{}
	for _, rule := range parts {
		for _, key := range parts {
			name := string(store.AppendKey(nil, rule, []byte(key)))
			pair := fmt.Sprintf("(%.20q, %.20q)", rule, key)
			if other, taken := names[name]; taken {
				t.Errorf("%s and %s are both called %q", pair, other, name)
			}
			names[name] = pair
			if len(name) > store.KeyBytesMax {
				t.Errorf("the name of %s has %d bytes", pair, len(name))
			}
		}
		if other, taken := names[string(store.AppendRule(nil, rule))+"*"]; taken {
			t.Errorf("rule %.20q and a * are called like %s", rule, other)
		}
	}
}

func TestAppendKey(t *testing.T) {
	for _, test := range []struct{ rule, key, want string }{
		{"per-partner", "acme", "x11:per-partner4:acme"},
		{"global", "", "x6:global0:"},
		{"r", strings.Repeat("k", 129), "x1:r#"},
	} {
		got := store.AppendKey([]byte("x"), test.rule, []byte(test.key))
		if !strings.HasPrefix(string(got), test.want) || len(test.key) <= store.PartBytesMax && string(got) != test.want {
			t.Errorf("(%s, %.10s) is called %q, want %q", test.rule, test.key, got, test.want)
		}
	}
	long := bytes.Repeat([]byte("k"), 8000)
	dst := make([]byte, 0, store.KeyBytesMax)
	for _, key := range [][]byte{[]byte("10.0.0.1"), long} {
		if n := testing.AllocsPerRun(100, func() { store.AppendKey(dst, "global", key) }); n != 0 {
			t.Errorf("a key of %d bytes: %v allocations", len(key), n)
		}
	}
}

func TestTightest(t *testing.T) {
	allowed := func(remaining, of int64) limit.Decision {
		return limit.Decision{Allowed: true, Remaining: remaining, Limit: of}
	}
	refused := func(wait time.Duration) limit.Decision {
		return limit.Decision{Remaining: 1, Limit: 10, RetryAfter: wait}
	}
	const most = 1 << 53
	for _, test := range []struct {
		name      string
		decisions []limit.Decision
		want      int
	}{
		{"one alone", []limit.Decision{allowed(5, 10)}, 0},
		{"the smaller share", []limit.Decision{allowed(50, 1000), allowed(3, 10)}, 0},
		{"the smaller share, second", []limit.Decision{allowed(3, 10), allowed(50, 1000)}, 1},
		{"the first of equal shares", []limit.Decision{allowed(1, 10), allowed(10, 100)}, 0},
		{"products beyond 64 bits", []limit.Decision{allowed(most, most), allowed(most-1, most)}, 1},
		{"who refuses, not who is emptier", []limit.Decision{allowed(0, 10), refused(time.Second)}, 1},
		{"the longest RetryAfter", []limit.Decision{refused(2 * time.Second), refused(3 * time.Second), refused(time.Second)}, 1},
		{"never is longest", []limit.Decision{refused(2 * time.Second), refused(limit.Never)}, 1},
		{"the first of equal waits", []limit.Decision{refused(time.Second), refused(time.Second)}, 0},
	} {
		if got := store.Tightest(test.decisions); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}

func TestAnswerDecision(t *testing.T) {
	ans := store.Answer{Decisions: []limit.Decision{{Remaining: 1}, {Remaining: 2}}, Tightest: 1}
	if d := ans.Decision(); d.Remaining != 2 {
		t.Errorf("the answer's decision is %+v", d)
	}
}

func TestModeNames(t *testing.T) {
	var got []string
	for m := store.Exact; m <= store.Closed; m++ {
		got = append(got, m.String())
	}
	if names := strings.Join(got, " "); names != "exact cached failopen local closed" {
		t.Error(names)
	}
}
