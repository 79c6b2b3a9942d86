package rails_test

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
	"weir/proxy/limit/rails"
)

// epoch is when every test begins.
var epoch = time.Date(2026, 1, 19, 16, 30, 0, 0, time.UTC)

// usual are those of the settings' defaults.
var usual = rails.Rails{Min: 5, Max: 100_000, Step: 4, Dwell: 3 * time.Minute}

// read is a limit as JSON has it, with quotes left out.
func read(t testing.TB, text string) (c limit.Config) {
	t.Helper()
	var b strings.Builder
	for field := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(field, "=")
		if name == "algorithm" {
			value = `"` + value + `"`
		}
		b.WriteString(`,"` + name + `":` + value)
	}
	if err := json.Unmarshal([]byte("{"+b.String()[1:]+"}"), &c); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return c
}

// write is the inverse of read.
func write(t testing.TB, c limit.Config) string {
	t.Helper()
	text := testkit.Must(json.Marshal(c))(t)
	return strings.NewReplacer(`{`, "", `}`, "", `"`, "", ":", "=", ",", " ").Replace(string(text))
}

func TestJudge(t *testing.T) {
	const (
		fixed100 = "algorithm=fixed limit=100 window=1"
		token50  = "algorithm=token capacity=200 fillRate=50"
		off      = "algorithm=off"
	)
	for _, test := range []struct{ name, inForce, wanted, want, why string }{
		{"near", fixed100, "algorithm=fixed limit=120 window=1", "algorithm=fixed limit=120 window=1", ""},
		{"as it is", fixed100, fixed100, fixed100, ""},
		{"as it is, outside the bounds", "algorithm=fixed limit=1 window=1", "algorithm=fixed limit=1 window=1",
			"algorithm=fixed limit=1 window=1", ""},
		{"another algorithm", fixed100, token50, token50, ""},
		{"a computed rate", fixed100, "algorithm=token capacity=50 fillRate=33.333333333333336",
			"algorithm=token capacity=50 fillRate=33.333333", ""},
		{"too high", "algorithm=fixed limit=90000 window=1", "algorithm=fixed limit=150000 window=1",
			"algorithm=fixed limit=100000 window=1", "150000/s is out of range"},
		{"too low", "algorithm=fixed limit=6 window=1", "algorithm=fixed limit=1 window=1",
			"algorithm=fixed limit=5 window=1", "1/s is out of range"},
		{"too far up", fixed100, "algorithm=fixed limit=1000 window=1", "algorithm=fixed limit=400 window=1",
			"too large a step from 100/s"},
		{"too far down", fixed100, "algorithm=fixed limit=10 window=1", "algorithm=fixed limit=25 window=1",
			"too large a step from 100/s"},
		{"too far across algorithms", token50, "algorithm=sliding limit=60000 window=60",
			"algorithm=sliding limit=12000 window=60", "too large a step from 50/s"},
		{"the burst goes with the rate", fixed100, "algorithm=token capacity=2000 fillRate=1000",
			"algorithm=token capacity=800 fillRate=400", "too large a step from 100/s"},
		{"and that of gcra", fixed100, "algorithm=gcra limit=1000 window=1 burst=100",
			"algorithm=gcra limit=400 window=1 burst=40", "too large a step from 100/s"},
		{"both", fixed100, "algorithm=fixed limit=1000000 window=1", "algorithm=fixed limit=400 window=1",
			"1000000/s is out of range; too large a step from 100/s"},
		{"too few permits for its window", "algorithm=fixed limit=8 window=1", "algorithm=fixed limit=1 window=0.5",
			"algorithm=fixed limit=3 window=0.5", "2/s is out of range"},
		{"a coarse window", "algorithm=fixed limit=6 window=1", "algorithm=fixed limit=1 window=1000",
			"algorithm=fixed limit=300 window=60", "0/s is out of range; too many at once"},
		{"a bucket without bottom", fixed100, "algorithm=token capacity=1000000 fillRate=50",
			"algorithm=token capacity=3000 fillRate=50", "too many at once"},
		{"a long window", fixed100, "algorithm=sliding limit=360000 window=3600",
			"algorithm=sliding limit=6000 window=60", "too many at once"},
		{"a long window, as before", "algorithm=sliding limit=360000 window=3600",
			"algorithm=sliding limit=540000 window=3600", "algorithm=sliding limit=540000 window=3600", ""},
		{"a burst", fixed100, "algorithm=gcra limit=100 window=1 burst=100000",
			"algorithm=gcra limit=100 window=1 burst=6000", "too many at once"},
		{"from off", off, fixed100, "algorithm=fixed limit=25000 window=1", "too large a step from +Inf/s"},
		{"from below", "algorithm=fixed limit=1 window=1", fixed100, "algorithm=fixed limit=20 window=1",
			"too large a step from 1/s"},
	} {
		inForce, wanted := read(t, test.inForce), read(t, test.wanted)
		v, err := usual.Judge(epoch, rails.LimitInForce{Config: inForce}, wanted)
		if got := write(t, v.Config); err != nil || got != test.want || v.String() != test.why ||
			v.Unchanged != (test.want == test.inForce) {
			t.Errorf("%s: from %s to %s: %s (%q, same %t) %v, want %s (%q)", test.name, test.inForce, test.wanted, got, &v,
				v.Unchanged, err, test.want, test.why)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, test := range []struct{ inForce, wanted, want string }{
		{"algorithm=fixed limit=100 window=1", "algorithm=off", "off, which only people"},
		{"algorithm=fixed limit=100 window=1", "algorithm=fixed limit=-1 window=1", "limit: must be greater than 0"},
		{"algorithm=fixed limit=100 window=1", "algorithm=token capacity=5", "fillRate: is missing"},
		{"algorithm=fixed limit=100 window=1", "limit=5", "algorithm: is missing"},
		{"algorithm=off", "algorithm=fixed limit=100 window=1", "too recently"},
	} {
		at := rails.LimitInForce{Config: read(t, test.inForce), Switched: epoch}
		if v, err := usual.Judge(epoch, at, read(t, test.wanted)); err == nil ||
			!strings.Contains(err.Error(), test.want) || v.Config != (limit.Config{}) {
			t.Errorf("%s: %+v, %v, want %q", test.wanted, v, err, test.want)
		}
	}
	for _, rate := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -5} {
		_, err := usual.Judge(epoch, rails.LimitInForce{Config: read(t, "algorithm=off")},
			limit.Config{Algorithm: limit.Token, Capacity: 5, FillRate: rate})
		if _, ok := errors.AsType[strict.Faults](err); !ok {
			t.Errorf("a rate of %v: %v", rate, err)
		}
	}
}

// Another algorithm waits until the dwell is over; its rate does not.
func TestDwell(t *testing.T) {
	at := rails.LimitInForce{Config: read(t, "algorithm=sliding limit=600 window=60"), Switched: epoch}
	wanted := read(t, "algorithm=token capacity=40 fillRate=20")
	for _, test := range []struct {
		after     time.Duration
		want, why string
	}{
		{0, "algorithm=sliding limit=1200 window=60", "too soon for another algorithm than sliding"},
		{usual.Dwell - 1, "algorithm=sliding limit=1200 window=60", "too soon for another algorithm than sliding"},
		{usual.Dwell, "algorithm=token capacity=40 fillRate=20", ""},
	} {
		v, err := usual.Judge(epoch.Add(test.after), at, wanted)
		if got := write(t, v.Config); err != nil || got != test.want || v.String() != test.why {
			t.Errorf("after %v: %s (%q) %v, want %s (%q)", test.after, got, &v, err, test.want, test.why)
		}
	}
}
