package season

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// data is the rows that count, by time.
type data struct {
	at     []float64 // middle of the slot, Unix seconds
	rate   []float64
	weight []float64
	step   float64 // length of a slot in seconds
	seen   float64 // seconds covered by rows
}

// newData checks rows and takes those with a weight.
func newData(rows []Row) (*data, error) {
	kept := make([]Row, 0, len(rows))
	sorted := true
	for i, r := range rows {
		switch {
		case r.At.IsZero():
			return nil, fmt.Errorf("season: row %d: no time", i)
		case !(r.Rate >= 0) || math.IsInf(r.Rate, 1):
			return nil, fmt.Errorf("season: row %d (%s): rate must be finite and at least 0, is %g", i, r.At.Format(time.RFC3339), r.Rate)
		case !(r.Weight >= 0) || math.IsInf(r.Weight, 1):
			return nil, fmt.Errorf("season: row %d (%s): weight must be finite and at least 0, is %g", i, r.At.Format(time.RFC3339), r.Weight)
		case r.Weight == 0:
			continue
		}
		if n := len(kept); n > 0 && r.At.Before(kept[n-1].At) {
			sorted = false
		}
		kept = append(kept, r)
	}
	if len(kept) == 0 {
		return nil, errors.New("season: no row with a weight above 0")
	}
	if !sorted {
		slices.SortStableFunc(kept, func(a, b Row) int { return a.At.Compare(b.At) })
	}
	d := &data{at: make([]float64, len(kept)), rate: make([]float64, len(kept)), weight: make([]float64, len(kept))}
	for i, r := range kept {
		d.at[i], d.rate[i], d.weight[i] = seconds(r.At), r.Rate, r.Weight
	}
	d.measure()
	for i := range d.at {
		d.at[i] -= d.step / 2
	}
	return d, nil
}

// measure finds the length of a slot, the median distance of rows, and how much
// time the rows cover.
func (d *data) measure() {
	d.step = stepDefault.Seconds()
	gaps := make([]float64, 0, len(d.at))
	for i := 1; i < len(d.at); i++ {
		if gap := d.at[i] - d.at[i-1]; gap > 0 {
			gaps = append(gaps, gap)
		}
	}
	if len(gaps) > 0 {
		d.step = median(slices.Clone(gaps))
	}
	d.seen = d.step
	for _, gap := range gaps {
		d.seen += min(gap, 3*d.step)
	}
}

// offset returns c: one event per slot, or a share of the median rate.
func (d *data) offset() float64 {
	return max(1/d.step, offsetShare*median(slices.Clone(d.rate)))
}

// seconds returns t in Unix seconds.
func seconds(t time.Time) float64 {
	return float64(t.Unix()) + float64(t.Nanosecond())*1e-9
}

// toDuration returns seconds as a Duration.
func toDuration(seconds float64) time.Duration {
	return time.Duration(math.Round(seconds * float64(time.Second)))
}

// median returns the middle of v, which it reorders; 0 for none.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	h := len(v) / 2
	if len(v)%2 == 1 {
		return v[h]
	}
	return v[h-1]/2 + v[h]/2
}
