package core

import (
	"errors"
	"fmt"
	"time"

	"github.com/goccy/go-json"

	"weir/advisor/forecast"
	"weir/advisor/policy"
	"weir/advisor/series"
)

// The names of the parts.
const (
	partForecast = "forecast"
	partHistory  = "history" // the rates, from which the forecast can be learned again
	partPolicy   = "policy"
	partTrack    = "track"
	partRest     = "rest"

	afresh  = "starting without it"
	rawSpan = 6 * time.Hour // for which rates are kept at full resolution
)

// Parts encodes the state as parts by name. Each can be read without the others, so that a
// new encoding affects only one part.
func (c *Core) Parts() (map[string][]byte, error) {
	m := c.now
	rules, fault := json.Marshal(m.policy.State())
	rest, err := json.Marshal(&m.kept)
	return map[string][]byte{
		partForecast: m.future.Encode(), partHistory: m.future.History().Encode(),
		partPolicy: rules, partTrack: m.track.encode(), partRest: rest,
	}, errors.Join(fault, err)
}

// A PartError is a part that could not be read.
type PartError struct {
	Part     string
	Fallback string // what is used instead
	Err      error
}

// Error returns the lost part, the cause, and what is used instead.
func (e *PartError) Error() string {
	return fmt.Sprintf("the part %s cannot be read, %s: %v", e.Part, e.Fallback, e.Err)
}

// Restore returns a Core with the state that [Core.Parts] encoded. Parts that cannot be
// read are left out, and returned as damages.
func Restore(t Settings, parts map[string][]byte) (*Core, []*PartError) {
	c := New(t)
	m := c.now
	var partErrors []*PartError
	failed := func(part, instead string, err error) { partErrors = append(partErrors, &PartError{part, instead, err}) }
	if err := m.restoreRest(parts[partRest]); err != nil {
		failed(partRest, afresh, err)
	}
	if past, err := series.Decode(parts[partHistory]); err != nil {
		failed(partHistory, afresh+", and without a forecast", err)
	} else if err := m.restoreFuture(t, past, parts[partForecast]); err != nil {
		rows := rowsOf(past)
		c.relearn(rows)
		failed(partForecast, fmt.Sprintf("learning it again from %d rates", len(rows)), err)
	}
	m.Zone = t.Forecast.Location.String()
	var rules policy.State
	err := json.Unmarshal(parts[partPolicy], &rules)
	if err == nil {
		err = m.policy.Restore(rules)
	}
	if err != nil {
		failed(partPolicy, afresh, err)
	}
	if track, err := decodeTrack(parts[partTrack]); err != nil {
		failed(partTrack, afresh, err)
	} else {
		m.track = track
	}
	if h := m.future.History(); h.Seen() > 0 && m.Rounds == 0 && m.Fleet.Newest.IsZero() && len(parts[partRest]) > 0 {
		// The current time is known all the same.
		m.Rounds, m.Fleet.Newest, m.Fleet.Ended = uint64(h.Seen()), h.Newest(), h.Newest()
	}
	if m.Most == 0 {
		m.recall()
	}
	return c, partErrors
}

// Reconfigure changes the settings of c, or returns why that is impossible and changes
// nothing.
func (c *Core) Reconfigure(t Settings) error {
	parts, err := c.Parts()
	if err != nil {
		return err
	}
	next, partErrors := Restore(t, parts)
	if len(partErrors) > 0 {
		return partErrors[0]
	}
	c.settings, c.now = t, next.now
	return nil
}

// restoreFuture restores the forecast for a history.
func (m *memory) restoreFuture(t Settings, past *series.History, data []byte) error {
	if zone := t.Forecast.Location.String(); m.Zone != zone { // its days and weeks are of another clock
		return fmt.Errorf("it was learned in the time zone %s, now it is %s", m.Zone, zone)
	}
	future, err := forecast.Restore(t.Forecast, past, data)
	if err == nil {
		m.future = future
	}
	return err
}

// restoreRest restores the part without an encoding of its own.
func (m *memory) restoreRest(data []byte) error {
	k := kept{Zone: m.Zone}
	if err := json.Unmarshal(data, &k); err != nil {
		return err
	}
	for _, p := range k.Fleet.Members {
		if p == nil {
			return errors.New("a proxy is null")
		}
	}
	m.kept = k
	return nil
}

// relearn learns the forecast again from rates.
func (c *Core) relearn(rows []series.Row) {
	m := c.now
	m.future = forecast.New(c.settings.Forecast)
	m.future.Load(rows)
	m.recall()
}

// HistoryAge returns how much history there is, and when it begins; zero if there is none.
func (c *Core) HistoryAge() (age time.Duration, since time.Time) {
	h := c.now.future.History()
	return h.Age(), h.Newest().Add(-h.Age())
}

// Import adds rates before the known ones. A forecaster learns in order of time, so a new
// one learns all of them.
func (c *Core) Import(rows []series.Row) {
	c.relearn(append(rows, rowsOf(c.now.future.History())...))
}

// rowsOf returns the rows of a history, as fine as available.
func rowsOf(h *series.History) []series.Row {
	newest := h.Newest()
	raw := h.Raw(newest.Add(-rawSpan), newest)
	border := newest
	if len(raw) > 0 {
		border = raw[0].At.Add(-raw[0].Interval)
	}
	fine := newest.Add(-series.Minute.Span()).Truncate(series.FiveMinutes.Width())
	coarse := newest.Add(-series.FiveMinutes.Span()).Truncate(series.Hour.Width()).Add(series.Hour.Width())
	rows := h.Rows(series.Hour, newest.Add(-series.Hour.Span()), coarse)
	rows = append(rows, h.Rows(series.FiveMinutes, coarse, fine)...)
	rows = append(rows, h.Rows(series.Minute, fine, border)...)
	return append(rows, raw...)
}
