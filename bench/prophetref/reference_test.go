package prophetref

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/goccy/go-json"
)

// A case of the reference forecasts: what Prophet itself said at a cut-off.
type reference struct {
	origin  time.Time // the end of the newest slot it knew
	horizon time.Duration
	said    float64
}

// references returns what Prophet said of a series, or what is true of our own.
func references(t *testing.T, name string) ([]reference, bool) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "shared", "reference", "forecast-baselines", name+".json"))
	if err != nil {
		var refs []reference
		for day := 800; day < 1800; day += 100 {
			at := origin.AddDate(0, 0, day)
			refs = append(refs, reference{at, oneDay, truth(at.Add(oneDay))})
		}
		return refs, false
	}
	var file struct {
		Horizons []float64 `json:"horizons"`
		Rows     []struct {
			Origin   int64                `json:"origin"`
			Forecast map[string][]float64 `json:"forecast"`
		} `json:"rows"`
	}
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	var refs []reference
	for _, r := range file.Rows {
		for i, h := range file.Horizons {
			refs = append(refs, reference{time.Unix(r.Origin, 0), time.Duration(h) * time.Second, r.Forecast["prophet"][i]})
		}
	}
	return refs, true
}

// tenMinutes returns the means of ten minutes, counted back from origin, of the
// last 28 days, by their end.
func tenMinutes(rows []Row, origin time.Time) []Row {
	const mean = 10 * time.Minute
	var out []Row
	n := 0.0
	from := sort.Search(len(rows), func(i int) bool { return rows[i].At.After(origin.AddDate(0, 0, -28)) })
	for _, r := range rows[from:] {
		if r.At.After(origin) {
			break
		}
		end := origin.Add(-origin.Sub(r.At) / mean * mean)
		if len(out) == 0 || !out[len(out)-1].At.Equal(end) {
			out, n = append(out, Row{At: end}), 0
		}
		last := &out[len(out)-1]
		last.Value = (last.Value*n + r.Value) / (n + 1)
		n++
	}
	return out
}

// fitUpTo fits what was known at origin: means of 28 days as the reference had
// them, or all rows.
func fitUpTo(t *testing.T, rows []Row, origin time.Time, means bool) *Model {
	t.Helper()
	known := until(rows, origin)
	if means {
		known = tenMinutes(rows, origin)
	}
	m, err := Fit(known)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestSaysWhatProphetSays forecasts at the cut-offs of the reference forecasts,
// which Prophet 1.5.0 made of the same rows. How the rows of the taxis were given
// to it is known exactly; those of the others were ten-minute means whose bounds
// are not, which makes a difference of its own.
func TestSaysWhatProphetSays(t *testing.T) {
	for _, c := range []struct {
		name, dir, file string
		step            time.Duration
		every           int
		median, tenth   float64 // of the relative differences: middle, and all but a tenth
	}{
		{"nyc_taxi_30min", "nab_nyc_taxi", "nyc_taxi.csv", 30 * time.Minute, 2, .006, .035},
		{"amzn_5min", "nab_twitter_volume", "Twitter_volume_AMZN.csv", 5 * time.Minute, 8, .015, .04},
		{"elb_5min", "nab_elb_request_count", "elb_request_count_8c0756.csv", 5 * time.Minute, 8, .02, .06},
	} {
		refs, ok := references(t, c.name)
		rows, there := read(t, c.dir, c.file)
		if !ok || !there {
			rows, c.step, c.every, c.median, c.tenth = own(), time.Second, 1, .02, .1
		}
		for i := range rows {
			rows[i].At, rows[i].Value = rows[i].At.Add(c.step), rows[i].Value/c.step.Seconds()
		}
		var differences []float64
		var m *Model
		cut, at := -1, time.Time{}
		for _, r := range refs {
			if !r.origin.Equal(at) {
				cut, at = cut+1, r.origin
				if cut%c.every == 0 {
					m = fitUpTo(t, rows, at, ok)
				}
			}
			if cut%c.every != 0 {
				continue
			}
			got := max(0, m.At(r.origin.Add(r.horizon))) // the reference has no negative rates
			differences = append(differences, math.Abs(got-r.said)/r.said)
		}
		slices.Sort(differences)
		median, tenth := differences[len(differences)/2], differences[len(differences)*9/10]
		t.Logf("%s: %d forecasts, relative difference %.4f in the middle, %.4f for all but a tenth", c.name, len(differences), median, tenth)
		if median > c.median || tenth > c.tenth {
			t.Errorf("%s: relative difference %.4f in the middle and %.4f for all but a tenth, must be at most %g and %g",
				c.name, median, tenth, c.median, c.tenth)
		}
	}
}
