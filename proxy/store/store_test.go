package store_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
	"weir/proxy/store"
)

// No choice of bytes in a rule or a key makes two pairs meet.
func TestKeysDoNotCollide(t *testing.T) {
	parts := []string{"", "a", "ab", "b", ":", "1", "1:", "1:a", "0:", "a1:b", "2:ab", "#", "*", "\x00", "a\x00", " ", "é",
		strings.Repeat("a", 127), strings.Repeat("a", 128), strings.Repeat("a", 129), strings.Repeat("a", 130),
		strings.Repeat("a", 10_000)}
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
	const most = 1 << 53
	type judged struct {
		limit limit.Config
		limit.Decision
	}
	fixed := func(permits int64) limit.Config {
		return limit.Config{Algorithm: limit.Fixed, Limit: permits, Window: 60}
	}
	allowed := func(remaining, of int64) judged {
		return judged{fixed(of), limit.Decision{Allowed: true, Remaining: remaining, Limit: of}}
	}
	gcra := func(remaining, of, burst int64) judged {
		return judged{limit.Config{Algorithm: limit.GCRA, Limit: of, Window: 60, Burst: burst},
			limit.Decision{Allowed: true, Remaining: remaining, Limit: of}}
	}
	off := judged{limit.Config{Algorithm: limit.Off}, limit.Decision{Allowed: true, Remaining: limit.Unlimited,
		Limit: limit.Unlimited}}
	refused := func(wait time.Duration) judged {
		return judged{fixed(10), limit.Decision{Remaining: 1, Limit: 10, RetryAfter: wait}}
	}
	for _, test := range []struct {
		name   string
		judged []judged
		want   int
	}{
		{"one alone", []judged{allowed(5, 10)}, 0},
		{"the smaller share", []judged{allowed(50, 1000), allowed(3, 10)}, 0},
		{"the smaller share, second", []judged{allowed(3, 10), allowed(50, 1000)}, 1},
		{"the first of equal shares", []judged{allowed(1, 10), allowed(10, 100)}, 0},
		{"products beyond 64 bits", []judged{allowed(most, most), allowed(most-1, most)}, 1},
		{"all of a small burst is left", []judged{gcra(2, 1000, 2), allowed(9, 10)}, 1},
		{"half of a burst beyond the limit is left", []judged{allowed(6, 10), gcra(50, 10, 100)}, 1},
		{"what is off is never tightest", []judged{off, gcra(2, 10, 2)}, 1},
		{"who refuses, not who is emptier", []judged{allowed(0, 10), refused(time.Second)}, 1},
		{"the longest RetryAfter", []judged{refused(2 * time.Second), refused(3 * time.Second), refused(time.Second)}, 1},
		{"never is longest", []judged{refused(2 * time.Second), refused(limit.Never)}, 1},
		{"the first of equal waits", []judged{refused(time.Second), refused(time.Second)}, 0},
	} {
		var counters []store.Counter
		var decisions []limit.Decision
		for _, j := range test.judged {
			counters = append(counters, store.Counter{Limit: limittest.Must(j.limit)})
			decisions = append(decisions, j.Decision)
		}
		if got := store.Tightest(counters, decisions); got != test.want {
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
