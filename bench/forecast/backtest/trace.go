package backtest

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// A Trace is a rate in slots of equal width. Slots that were not recorded are NaN.
type Trace struct {
	Name  string
	Start time.Time // when slot 0 begins
	Step  time.Duration
	Rates []float64 // per second
}

// End returns the end of slot i.
func (t *Trace) End(i int) time.Time { return t.Start.Add(time.Duration(i+1) * t.Step) }

// slotsMax bounds a trace: a year of seconds.
const slotsMax = 32 << 20

// ParseCounts parses a CSV file with a header and two columns, the time at which a slot
// begins and the count in it. Times ascend. Slots without a row were not recorded.
func ParseCounts(name string, step time.Duration, text []byte) (*Trace, error) {
	rd := csv.NewReader(bytes.NewReader(text))
	rd.ReuseRecord = true
	if _, err := rd.Read(); err != nil {
		return nil, fmt.Errorf("read trace %s: head line: %w", name, err)
	}
	t := &Trace{Name: name, Step: step}
	for line := 2; ; line++ {
		row, err := rd.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read trace %s: %w", name, err)
		}
		if len(row) < 2 {
			return nil, fmt.Errorf("read trace %s: line %d has %d columns, must have 2", name, line, len(row))
		}
		at, err := parseTime(row[0])
		if err != nil {
			return nil, fmt.Errorf("read trace %s: line %d: %w", name, line, err)
		}
		count, err := strconv.ParseFloat(row[1], 64)
		if err != nil || !(count >= 0) || math.IsInf(count, 0) {
			return nil, fmt.Errorf("read trace %s: line %d: count %q must be a number of at least 0", name, line, row[1])
		}
		if err := t.put(at, count/step.Seconds()); err != nil {
			return nil, fmt.Errorf("read trace %s: line %d: %w", name, line, err)
		}
	}
	if len(t.Rates) == 0 {
		return nil, fmt.Errorf("read trace %s: it has no rows", name)
	}
	return t, nil
}

// put sets the slot that begins at an instant. Slots between it and the previous one were
// not recorded.
func (t *Trace) put(at time.Time, rate float64) error {
	if len(t.Rates) == 0 {
		t.Start = at
	}
	i := int(math.Round(float64(at.Sub(t.Start)) / float64(t.Step)))
	if i < len(t.Rates) {
		return fmt.Errorf("time %s is not after the row before", at.Format(time.DateTime))
	}
	if i >= slotsMax {
		return fmt.Errorf("time %s is slot %d, at most %d are allowed", at.Format(time.DateTime), i, slotsMax)
	}
	for len(t.Rates) < i {
		t.Rates = append(t.Rates, math.NaN())
	}
	t.Rates = append(t.Rates, rate)
	return nil
}

func parseTime(s string) (time.Time, error) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return time.Unix(n, 0).UTC(), nil
	}
	at, err := time.Parse(time.DateTime, s)
	if err != nil {
		return at, fmt.Errorf("time %q must be seconds or like %s", s, time.DateTime)
	}
	return at, nil
}

// ParseRates parses a file with one rate per line. Start is left zero.
func ParseRates(name string, step time.Duration, text []byte) (*Trace, error) {
	t := &Trace{Name: name, Step: step}
	for i, field := range strings.Fields(string(text)) {
		rate, err := strconv.ParseFloat(field, 64)
		if err != nil || !(rate >= 0) || math.IsInf(rate, 0) {
			return nil, fmt.Errorf("read trace %s: line %d: rate %q must be a number of at least 0", name, i+1, field)
		}
		t.Rates = append(t.Rates, rate)
	}
	if len(t.Rates) == 0 {
		return nil, fmt.Errorf("read trace %s: it has no rates", name)
	}
	return t, nil
}
