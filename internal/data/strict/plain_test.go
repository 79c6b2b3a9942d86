package strict

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		`2.9893330000000002`:                            `2.989333`,
		`[16.666666666666668,-0.30000000000000004]`:     `[16.6666666666667,-0.3]`,
		`{"a":0.1,"b": 1.7976931348623157e+308}`:        `{"a":0.1,"b": 1.7976931348623157e+308}`,
		`1.2345678901234567e-9`:                         `1.23456789012346e-09`,
		`{"v":9007199254740993,"w":-0}`:                 `{"v":9007199254740993,"w":-0}`,
		`{"at":"0001-01-01T00:00:00Z"}`:                 `{"at":null}`,
		`{"0001-01-01T00:00:00Z" : 1}`:                  `{"0001-01-01T00:00:00Z" : 1}`,
		`"a 2.9893330000000002 \" 0.30000000000000004"`: `"a 2.9893330000000002 \" 0.30000000000000004"`,
		`{"q":"\\","n":0.30000000000000004}`:            `{"q":"\\","n":0.3}`,
		``:                                              ``,
	} {
		if have := string(NormalizeJSON([]byte(text))); have != want {
			t.Errorf("%s: have %s, want %s", text, have, want)
		}
	}
}

// Every span of whole microseconds is written with its own digits, and what is plain
// already does not change.
func TestPlainSpans(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		span := time.Duration(r.Int64N(int64(24*time.Hour))) / 1000 * 1000
		text := testkit.Must(json.Marshal(span.Seconds()))(t)
		plain := NormalizeJSON(text)
		if want, _ := json.Marshal(float64(span.Microseconds()) / 1e6); string(plain) != string(want) ||
			string(NormalizeJSON(plain)) != string(plain) {
			t.Fatalf("%v: have %s, want %s", span, plain, want)
		}
	}
}
