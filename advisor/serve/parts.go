package serve

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/goccy/go-json"

	"weir/advisor/forecast"
	"weir/advisor/policy"
	"weir/advisor/series"
	"weir/advisor/state"
)

// The parts of a state file. Each can be read without the others, so that a new form
// of one costs that one alone.
const (
	partForecast = "forecast"
	partHistory  = "history" // the rates, for when the forecast cannot be read
	partPolicy   = "policy"
	partTrack    = "track"
	partRest     = "rest"
)

// rest is what has no form of its own.
type rest struct {
	Fleet   fleet     `json:"fleet"`
	Advice  advice    `json:"advice"`
	Changes []change  `json:"changes"`
	Shifts  []shift   `json:"shifts"`
	Rounds  uint64    `json:"rounds"`
	Most    float64   `json:"most"`
	Fitted  time.Time `json:"fitted"`
}

// parts writes the memory down.
func (m *memory) parts(t *Tuning) ([]state.Part, error) {
	future, err := m.future.MarshalBinary()
	if err != nil {
		return nil, err
	}
	rules, err := json.Marshal(m.policy.State())
	if err != nil {
		return nil, err
	}
	others, err := json.Marshal(rest{m.fleet, m.advice, m.changes, m.shifts, m.rounds, m.most, m.fitted})
	if err != nil {
		return nil, err
	}
	past := encodeRows(t.zone(), ownRows(m.future.History()))
	return []state.Part{
		{Name: partForecast, Data: future}, {Name: partHistory, Data: past}, {Name: partPolicy, Data: rules},
		{Name: partTrack, Data: m.track.encode()}, {Name: partRest, Data: others},
	}, nil
}

// A damage is a part that could not be read.
type damage struct {
	part string
	err  error
	// instead says what is gone on with.
	instead string
}

func (d *damage) String() string {
	return fmt.Sprintf("the part %s cannot be read, %s: %v", d.part, d.instead, d.err)
}

const afresh = "it begins afresh"

// remember makes a memory of what parts wrote, of each part by itself. What could
// not be read is told.
func remember(t *Tuning, image *state.Image) (m *memory, damages []damage) {
	m = newMemory(t)
	failed := func(part, instead string, err error) { damages = append(damages, damage{part, err, instead}) }
	if err := m.restoreRest(image.Part(partRest)); err != nil {
		failed(partRest, afresh, err)
	}
	zone, rows, past := decodeRows(image.Part(partHistory))
	err := m.future.UnmarshalBinary(image.Part(partForecast))
	switch {
	case err == nil && (past != nil || zone == t.zone()):
	case past == nil: // what it knows of days and weeks is by another clock, or it cannot be read
		cause := err
		if cause == nil {
			cause = fmt.Errorf("it was learned in the time zone %s, now it is %s", zone, t.zone())
		}
		m.rebuild(t, rows)
		failed(partForecast, fmt.Sprintf("it is learned again from %d rates", len(rows)), cause)
	default:
		failed(partForecast, afresh, err)
	}
	var rules policy.State
	if err := json.Unmarshal(image.Part(partPolicy), &rules); err != nil {
		failed(partPolicy, afresh, err)
	} else if err := m.policy.Restore(rules); err != nil {
		m.policy = policy.New(t.Policy)
		failed(partPolicy, afresh, err)
	}
	if track, err := decodeTrack(image.Part(partTrack)); err != nil {
		failed(partTrack, afresh, err)
	} else {
		m.track = track
	}
	if newest, ok := m.future.History().Newest(); ok && m.rounds == 0 && len(image.Part(partRest)) > 0 && m.fleet.Newest.IsZero() {
		// The time we are in is known all the same.
		m.rounds, m.fleet.Newest, m.fleet.Ended = uint64(m.future.History().Seen()), newest, newest
	}
	if m.most == 0 {
		m.recall()
	}
	return m, damages
}

// restoreRest restores what has no form of its own.
func (m *memory) restoreRest(data []byte) error {
	var r rest
	if err := json.Unmarshal(data, &r); err != nil {
		return err
	}
	for _, p := range r.Fleet.Members {
		if p == nil {
			return errors.New("a proxy is null")
		}
		if p.Heard.IsZero() {
			p.Heard = p.At
		}
	}
	m.fleet, m.advice, m.changes, m.shifts, m.rounds, m.most, m.fitted = r.Fleet, r.Advice, r.Changes, r.Shifts, r.Rounds, r.Most, r.Fitted
	return nil
}

// rebuild learns the forecast again from rates.
func (m *memory) rebuild(t *Tuning, rows []series.Row) {
	m.future = forecast.New(t.Forecast)
	m.future.Load(rows)
	m.fitted = time.Time{}
	if job, due := m.future.Refit(); due {
		if model, err := protect(job.Run); err == nil {
			m.future.Adopt(model)
		}
	}
	m.recall()
}

// zone is the name of the time zone.
func (t *Tuning) zone() string {
	if t.Forecast.Location == nil {
		return time.UTC.String()
	}
	return t.Forecast.Location.String()
}

const (
	rowsVersion = 1
	rowBytes    = 8 + 8 + 8 + 4
	zoneMax     = math.MaxUint8
)

var errRows = errors.New("not rates of this version")

// encodeRows writes rates, and the time zone that they were learned in.
func encodeRows(zone string, rows []series.Row) []byte {
	zone = zone[:min(len(zone), zoneMax)]
	out := make([]byte, 0, 2+len(zone)+len(rows)*rowBytes)
	out = append(out, rowsVersion, byte(len(zone)))
	out = append(out, zone...)
	for _, r := range rows {
		out = binary.LittleEndian.AppendUint64(out, uint64(r.At.UnixNano()))
		out = binary.LittleEndian.AppendUint64(out, uint64(r.Interval))
		out = binary.LittleEndian.AppendUint64(out, math.Float64bits(r.Rate))
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(float32(r.Coverage)))
	}
	return out
}

// decodeRows reads what encodeRows wrote. That no rate makes sense is left to the
// history to find.
func decodeRows(b []byte) (zone string, rows []series.Row, err error) {
	if len(b) < 2 || b[0] != rowsVersion || len(b) < 2+int(b[1]) {
		return "", nil, errRows
	}
	zone, b = string(b[2:2+int(b[1])]), b[2+int(b[1]):]
	if len(b)%rowBytes != 0 {
		return "", nil, errRows
	}
	for ; len(b) > 0; b = b[rowBytes:] {
		rows = append(rows, series.Row{
			At:       time.Unix(0, int64(binary.LittleEndian.Uint64(b))),
			Interval: time.Duration(binary.LittleEndian.Uint64(b[8:])),
			Rate:     math.Float64frombits(binary.LittleEndian.Uint64(b[16:])),
			Coverage: float64(math.Float32frombits(binary.LittleEndian.Uint32(b[24:]))),
		})
	}
	return cmp.Or(zone, time.UTC.String()), rows, nil
}
