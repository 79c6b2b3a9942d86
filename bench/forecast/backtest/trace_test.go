package backtest

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestParseCounts(t *testing.T) {
	tr, err := ParseCounts("a", time.Minute,
		[]byte("period,count\n1998-05-05 00:00:00,60\n1998-05-05 00:01:00,120\n1998-05-05 00:04:00,0\n"))
	if err != nil {
		t.Fatal(err)
	}
	if want := time.Date(1998, 5, 5, 0, 0, 0, 0, time.UTC); !tr.Start.Equal(want) || len(tr.Rates) != 5 {
		t.Fatalf("begins %s with %d slots", tr.Start, len(tr.Rates))
	}
	if tr.Rates[0] != 1 || tr.Rates[1] != 2 || tr.Rates[2] == tr.Rates[2] || tr.Rates[3] == tr.Rates[3] ||
		tr.Rates[4] != 0 {
		t.Errorf("rates %v, want 1 2 missing missing 0", tr.Rates)
	}
	if tr, err := ParseCounts("s", time.Second, []byte("second,count\n0,4\n1,5\n")); err != nil || tr.Rates[1] != 5 {
		t.Errorf("times in seconds: %v %v", tr, err)
	}
}

func TestParseRefusals(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "head line"},
		{"a,b\n", "no rows"},
		{"a,b\n0\n", "wrong number of fields"},
		{"a\n0\n", "has 1 columns"},
		{"a,b\nyesterday,1\n", "yesterday"},
		{"a,b\n0,x\n", `count "x"`},
		{"a,b\n0,-1\n", `count "-1"`},
		{"a,b\n0,NaN\n", `count "NaN"`},
		{"a,b\n60,1\n0,1\n", "is not after"},
		{"a,b\n0,1\n99999999999,1\n", "at most"},
	} {
		if _, err := ParseCounts("t", time.Second, []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want something about %q", c.text, err, c.want)
		}
	}
	if _, err := ParseRates("t", time.Second, []byte("1\nx")); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("rates: %v", err)
	}
	if r, err := ParseRates("t", time.Second, []byte("1\n2.5\n")); err != nil || len(r.Rates) != 2 || r.Rates[1] != 2.5 {
		t.Errorf("rates: %v %v", r, err)
	}
}

// No text causes a panic, and every trace that is read is valid.
func FuzzParse(f *testing.F) {
	f.Add("period,count\n1998-05-05 00:00:00,60\n1998-05-05 00:01:00,120\n")
	f.Add("a,b\n0,4\n5,6\n")
	f.Fuzz(func(t *testing.T, text string) {
		tr, err := ParseCounts("f", time.Hour, []byte(text))
		if err != nil {
			return
		}
		for i, y := range tr.Rates {
			if y < 0 || math.IsInf(y, 0) {
				t.Fatalf("slot %d has rate %g", i, y)
			}
		}
	})
}

func TestParseReference(t *testing.T) {
	good := `{"series":"a","step":60,"horizons":[60],"rows":[{"origin":1,"index":0,"truth":[2],"forecast":{"last":[3]}}]}`
	r, err := ParseReference([]byte(good))
	if err != nil || r.Rows[0].Forecast["last"][0] != 3 {
		t.Fatalf("%v %v", r, err)
	}
	for _, bad := range []string{"", "{", strings.Replace(good, `"truth":[2]`, `"truth":[]`, 1),
		strings.Replace(good, "[3]", "[3,4]", 1)} {
		if _, err := ParseReference([]byte(bad)); err == nil {
			t.Errorf("%s is read without an error", bad)
		}
	}
}
