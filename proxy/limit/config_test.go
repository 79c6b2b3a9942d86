package limit_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"weir/internal/data/strict"

	"weir/internal/test/testkit"
	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
)

func TestConfigJSON(t *testing.T) {
	for _, text := range []string{
		`{"algorithm":"fixed","limit":100,"window":60}`,
		`{"algorithm":"sliding","limit":500,"window":0.5}`,
		`{"algorithm":"token","capacity":50,"fillRate":5}`,
		`{"algorithm":"token","limit":100,"window":60,"capacity":50,"fillRate":2.5}`,
		`{"algorithm":"sliding_log","limit":20,"window":60}`,
		`{"algorithm":"gcra","limit":1,"window":3}`,
		`{"algorithm":"gcra","limit":1,"window":3,"burst":2}`,
		`{"algorithm":"leaky","capacity":50,"fillRate":5}`,
		`{"algorithm":"off"}`,
		`{"algorithm":"off","limit":100,"window":60,"burst":7}`,
	} {
		var c limit.Config
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if back, err := json.Marshal(c); err != nil || string(back) != text {
			t.Errorf("%s became %s, %v", text, back, err)
		}
	}
	if empty, err := json.Marshal(limit.Config{}); err != nil || string(empty) != `{"algorithm":""}` {
		t.Errorf("the zero Config became %s, %v", empty, err)
	}
	var c limit.Config
	err := json.Unmarshal([]byte(`{"algorithm":"Fixed"}`), &c)
	if err == nil ||
		!strings.Contains(err.Error(), `must be one of fixed, sliding, token, sliding_log, gcra, leaky, off, is "Fixed"`) {
		t.Errorf("wrong case of an algorithm: %v", err)
	}
}

func TestValidate(t *testing.T) {
	fixed, sliding, token := limit.Fixed, limit.Sliding, limit.Token
	log, gcra, leaky := limit.SlidingLog, limit.GCRA, limit.Leaky
	for _, test := range []struct {
		config limit.Config
		want   string // paths of the faults, then words of the first
	}{
		{limit.Config{Algorithm: fixed, Limit: 1, Window: 0.000001}, ""},
		{limit.Config{Algorithm: sliding, Limit: 1, Window: 90.001}, ""},
		{limit.Config{Algorithm: token, Capacity: 1, FillRate: 0.1}, ""},
		{limit.Config{}, "algorithm: is missing"},
		{limit.Config{Algorithm: fixed}, "limit window: is missing or 0"},
		{limit.Config{Algorithm: sliding, Window: 1}, "limit: is missing or 0"},
		{limit.Config{Algorithm: token}, "capacity fillRate: is missing or 0"},
		{limit.Config{Algorithm: fixed, Limit: -1, Window: -2}, "limit window: must be greater than 0, is -1"},
		{limit.Config{Algorithm: fixed, Limit: 1, Window: 1, Capacity: -5, FillRate: -1}, "capacity fillRate: is -5"},
		{limit.Config{Algorithm: fixed, Limit: 1, Window: math.NaN()}, "window: is NaN"},
		{limit.Config{Algorithm: fixed, Limit: 1, Window: math.Inf(1)}, "window: is +Inf"},
		{limit.Config{Algorithm: fixed, Limit: 1, Window: 1e300}, "window: at most 3153600000 seconds"},
		{limit.Config{Algorithm: fixed, Limit: 1, Window: 3153600001}, "window: at most 3153600000 seconds"},
		{limit.Config{Algorithm: fixed, Limit: 1, Window: 0.0000001}, "window: whole microseconds"},
		{limit.Config{Algorithm: fixed, Limit: 1<<53 + 1, Window: 1}, "limit: at most 9007199254740992"},
		{limit.Config{Algorithm: sliding, Limit: 150119988, Window: 60}, "limit: at most 150119987"},
		{limit.Config{Algorithm: sliding, Limit: 1, Window: 60.0001}, "window: multiple of 1ms"},
		{limit.Config{Algorithm: sliding, Limit: 1, Window: 86400.5}, "window: multiple of 1s"},
		{limit.Config{Algorithm: token, Capacity: 1, FillRate: 100.0 / 3}, "fillRate: at most 6 decimals"},
		{limit.Config{Algorithm: token, Capacity: 100_000, FillRate: 33.333333}, "capacity: a fillRate of 33.3333 could be"},
		{limit.Config{Algorithm: token, Capacity: 1, FillRate: 0.0000001}, "fillRate: is 0.0000001"},
		{limit.Config{Algorithm: token, Capacity: 1, FillRate: 1e10}, "fillRate: at most 9007199254 per second"},
		{limit.Config{Algorithm: token, Capacity: 9008, FillRate: 33.333333}, "capacity: at most 9007"},
		{limit.Config{Algorithm: token, Capacity: 4000, FillRate: 0.000001}, "fillRate: within 100 years"},
		{limit.Config{Algorithm: log, Limit: 65536, Window: 3153600000}, ""},
		{limit.Config{Algorithm: log, Limit: 2, Window: 0.000001}, ""},
		{limit.Config{Algorithm: gcra, Limit: 1 << 53, Window: 3600}, ""},
		{limit.Config{Algorithm: gcra, Limit: 1, Window: 3153600000}, ""},
		{limit.Config{Algorithm: leaky, Capacity: 9006, FillRate: 33.333333}, ""},
		{limit.Config{Algorithm: limit.Off}, ""},
		{limit.Config{Algorithm: limit.Off, Limit: -1}, "limit: is -1"},
		{limit.Config{Algorithm: log}, "limit window: is missing or 0; algorithm sliding_log"},
		{limit.Config{Algorithm: log, Limit: 65537, Window: 60},
			"limit: at most 65536 with sliding_log in a window of 60 seconds, because each request is remembered for that long"},
		{limit.Config{Algorithm: log, Limit: 3, Window: 0.000001}, "limit: at most 2 with sliding_log"},
		{limit.Config{Algorithm: log, Limit: 3, Window: 0.0000001}, "window: whole microseconds"},
		{limit.Config{Algorithm: gcra, Limit: 1}, "window: is missing or 0; algorithm gcra"},
		{limit.Config{Algorithm: gcra, Limit: 1, Window: 1, Burst: -1}, "burst: is -1"},
		{limit.Config{Algorithm: gcra, Limit: 1<<53 + 2, Window: 1}, "limit: at most 9007199254740992"},
		{limit.Config{Algorithm: gcra, Limit: 1, Window: 86400, Burst: 104250},
			"burst: at most 104249 to be counted exactly in a window of 86400"},
		{limit.Config{Algorithm: gcra, Limit: 1, Window: 3153600000, Burst: 2}, "burst: within 100 years"},
		{limit.Config{Algorithm: leaky, Capacity: 1}, "fillRate: is missing or 0; algorithm leaky"},
		{limit.Config{Algorithm: leaky, Capacity: 9007, FillRate: 33.333333}, "capacity: at most 9006"},
		{limit.Config{Algorithm: leaky, Capacity: 1, FillRate: 100.0 / 3}, "fillRate: a fillRate of 33.333333 could be"},
	} {
		err := test.config.Validate()
		if test.want == "" {
			if err != nil {
				t.Errorf("%+v: %v", test.config, err)
			}
			continue
		}
		paths, words, _ := strings.Cut(test.want, ": ")
		faults, ok := errors.AsType[strict.Faults](err)
		if !ok {
			t.Errorf("%+v: %v, want faults of %s", test.config, err, paths)
			continue
		}
		var got []string
		for _, f := range faults {
			got = append(got, f.Path)
		}
		if strings.Join(got, " ") != paths || !strings.Contains(faults[0].Message, words) {
			t.Errorf("%+v:\n got %v\nwant %s", test.config, err, test.want)
		}
		if _, err := limit.New(test.config); err == nil {
			t.Errorf("%+v: New accepts what Validate refuses", test.config)
		}
	}
}

// Rounded makes valid what fails for its decimals alone, and stays near it.
func TestRounded(t *testing.T) {
	for _, test := range []struct{ from, want limit.Config }{
		{limit.Config{Algorithm: limit.Fixed, Limit: 1, Window: 100.0 / 3},
			limit.Config{Algorithm: limit.Fixed, Limit: 1, Window: 33.333333}},
		{limit.Config{Algorithm: limit.Sliding, Limit: 1, Window: 200.0 / 3},
			limit.Config{Algorithm: limit.Sliding, Limit: 1, Window: 66.667}},
		{limit.Config{Algorithm: limit.Sliding, Limit: 1, Window: 99999.9},
			limit.Config{Algorithm: limit.Sliding, Limit: 1, Window: 100000}},
		{limit.Config{Algorithm: limit.Token, Capacity: 5, FillRate: 100.0 / 3},
			limit.Config{Algorithm: limit.Token, Capacity: 5, FillRate: 33.333333}},
		{limit.Config{Algorithm: limit.Token, Capacity: 100_000, FillRate: 100.0 / 3},
			limit.Config{Algorithm: limit.Token, Capacity: 100_000, FillRate: 33.3333}},
		{limit.Config{Algorithm: limit.Token, Capacity: 100_000, FillRate: 50},
			limit.Config{Algorithm: limit.Token, Capacity: 100_000, FillRate: 50}},
		{limit.Config{Algorithm: limit.SlidingLog, Limit: 1, Window: 100.0 / 3},
			limit.Config{Algorithm: limit.SlidingLog, Limit: 1, Window: 33.333333}},
		{limit.Config{Algorithm: limit.GCRA, Limit: 1, Window: 200.0 / 3},
			limit.Config{Algorithm: limit.GCRA, Limit: 1, Window: 66.666667}},
		{limit.Config{Algorithm: limit.Leaky, Capacity: 9007, FillRate: 100.0 / 3},
			limit.Config{Algorithm: limit.Leaky, Capacity: 9007, FillRate: 33.33333}},
	} {
		got := test.from.Rounded()
		if got != test.want {
			t.Errorf("%+v became %+v, want %+v", test.from, got, test.want)
		}
		if err := got.Validate(); err != nil {
			t.Errorf("%+v: %v", got, err)
		}
	}
	for _, rate := range []float64{math.NaN(), math.Inf(1), -1, 1e-9, 1e300} {
		c := limit.Config{Algorithm: limit.Token, Capacity: 1, FillRate: rate}
		if got := c.Rounded().FillRate; got != rate && rate == rate {
			t.Errorf("a hopeless fillRate of %v became %v", rate, got)
		}
	}
}

func TestMerge(t *testing.T) {
	last := limit.Config{Algorithm: limit.Fixed, Limit: 100, Window: 60}
	first := limit.Config{Algorithm: limit.Token, Capacity: 50, FillRate: 5}
	want := limit.Config{Algorithm: limit.Token, Limit: 100, Window: 60, Capacity: 50, FillRate: 5}
	if got := first.Merge(last); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	back := limit.Config{Algorithm: limit.Fixed}.Merge(want)
	if back.Limit != 100 || back.Window != 60 || back.Validate() != nil {
		t.Errorf("switching back gives %+v", back)
	}
	paced := limit.Config{Algorithm: limit.GCRA, Limit: 1, Window: 3, Burst: 5}
	if got := (limit.Config{Algorithm: limit.GCRA}).Merge(paced); got != paced {
		t.Errorf("switching to gcra gives %+v, want the burst that was known", got)
	}
	if got := (limit.Config{Algorithm: limit.GCRA, Limit: 2, Window: 3}).Merge(paced); got.Burst != 1 {
		t.Errorf("a limit without burst gives %+v, want burst 1", got)
	}
}

func TestLimitTellsItsNumbers(t *testing.T) {
	for _, test := range []struct {
		config  limit.Config
		permits int64
		window  time.Duration
		rate    float64
	}{
		{limit.Config{Algorithm: limit.Fixed, Limit: 30, Window: 60}, 30, time.Minute, 0.5},
		{limit.Config{Algorithm: limit.Sliding, Limit: 30, Window: 0.5}, 30, 500 * time.Millisecond, 60},
		{limit.Config{Algorithm: limit.Token, Capacity: 50, FillRate: 33.333333}, 50, 0, 33.333333},
		{limit.Config{Algorithm: limit.SlidingLog, Limit: 30, Window: 60}, 30, time.Minute, 0.5},
		{limit.Config{Algorithm: limit.GCRA, Limit: 30, Window: 60, Burst: 4}, 30, time.Minute, 0.5},
		{limit.Config{Algorithm: limit.Leaky, Capacity: 50, FillRate: 33.333333}, 50, 0, 33.333333},
		{limit.Config{Algorithm: limit.Off}, limit.Unlimited, 0, math.Inf(1)},
	} {
		l := testkit.Must(limit.New(test.config))(t)
		if l.Config() != test.config || l.Algorithm() != test.config.Algorithm {
			t.Errorf("%+v came back as %+v", test.config, l.Config())
		}
		if l.Permits() != test.permits || l.Window() != test.window || l.Rate() != test.rate {
			t.Errorf("%+v: %d permits, window %v, rate %v", test.config, l.Permits(), l.Window(), l.Rate())
		}
	}
}

// A kind is the algorithm and the window, and nothing else.
func TestKind(t *testing.T) {
	for _, test := range []struct {
		cfg  limit.Config
		want string
	}{
		{limit.Config{Algorithm: limit.Fixed, Limit: 10, Window: 1}, "fixed:1000000"},
		{limit.Config{Algorithm: limit.Fixed, Limit: 20, Window: 1}, "fixed:1000000"},
		{limit.Config{Algorithm: limit.Fixed, Limit: 10, Window: 0.000001}, "fixed:1"},
		{limit.Config{Algorithm: limit.Sliding, Limit: 10, Window: 1}, "sliding:1000000"},
		{limit.Config{Algorithm: limit.SlidingLog, Limit: 10, Window: 1}, "sliding_log:1000000"},
		{limit.Config{Algorithm: limit.Token, Capacity: 10, FillRate: 1}, "token"},
		{limit.Config{Algorithm: limit.Token, Capacity: 20, FillRate: 3}, "token"},
		{limit.Config{Algorithm: limit.Leaky, Capacity: 10, FillRate: 1}, "leaky"},
		{limit.Config{Algorithm: limit.GCRA, Limit: 3, Window: 1}, "gcra:1000000"},
		{limit.Config{Algorithm: limit.GCRA, Limit: 4, Window: 1, Burst: 2}, "gcra:1000000"},
		{limit.Config{Algorithm: limit.GCRA, Limit: 3, Window: 100 * 365 * 24 * 3600}, "gcra:3153600000000000"},
	} {
		l, s := limittest.Must(test.cfg), limit.State{}
		if got := s.Kind(); got != 0 {
			t.Errorf("a key never seen has the kind %v, want none", got)
		}
		l.Take(limittest.Epoch, &s, 1, 1)
		if got := string(l.Kind().Append(nil)); got != test.want || s.Kind() != l.Kind() {
			t.Errorf("%+v is of kind %s, its state of %s, want %s", test.cfg, got, s.Kind().Append(nil), test.want)
		}
	}
}

func TestAlgorithmNames(t *testing.T) {
	for _, test := range []struct {
		algorithm  limit.Algorithm
		word, long string
	}{
		{limit.Fixed, "fixed", "FixedWindow"},
		{limit.Sliding, "sliding", "SlidingWindow"},
		{limit.Token, "token", "TokenBucket"},
		{limit.SlidingLog, "sliding_log", "SlidingLog"},
		{limit.GCRA, "gcra", "GCRA"},
		{limit.Leaky, "leaky", "LeakyBucket"},
		{limit.Off, "off", "Off"},
		{0, "none", "None"},
	} {
		if test.algorithm.String() != test.word || test.algorithm.LongName() != test.long {
			t.Errorf("%d is called %s and %s", test.algorithm, test.algorithm, test.algorithm.LongName())
		}
		var parsed limit.Algorithm
		if err := parsed.UnmarshalText([]byte(test.word)); parsed != test.algorithm || (err == nil) != (parsed != 0) {
			t.Errorf("%s parses as %v, %v", test.word, parsed, err)
		}
	}
}
