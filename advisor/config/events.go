package config

import (
	"slices"
	"time"

	"weir/advisor/forecast"
	"weir/internal/data/strict"
	"weir/internal/program/watch"
)

// Bounds on a file of events.
const (
	eventsBytesMax = 1 << 20
	eventsMax      = 1000
	nameBytesMax   = 100
	rampMax        = 7 * 24 * time.Hour
)

// ReadEvents reads a file of events. Times without a zone are in zone. Invalid content is
// a strict.Faults.
func ReadEvents(name string, zone *time.Location) ([]forecast.Event, error) {
	data, err := watch.ReadFile(name, eventsBytesMax)
	if err != nil {
		return nil, err
	}
	return ParseEvents(data, zone)
}

// ParseEvents parses events in YAML (or JSON, which is YAML):
//
//   - name: sale
//     start: 2026-11-27T08:00:00+01:00   # or 2026-11-27 08:00 in zone
//     end: 2026-11-27T20:00:00+01:00
//     ramp: 30m                          # how long it comes and goes; 0 if absent
//
// The error is a strict.Faults with all faults.
func ParseEvents(data []byte, zone *time.Location) ([]forecast.Event, error) {
	r := reader{zone: zone}
	events := r.file(data)
	if err := r.Err(); err != nil {
		return nil, err
	}
	return events, nil
}

// An eventText is an event in the form of the file.
type eventText struct {
	Name  strict.Scalar `json:"name"`
	Start strict.Scalar `json:"start"`
	End   strict.Scalar `json:"end"`
	Ramp  strict.Scalar `json:"ramp"`
}

// A reader reads a file of events.
//
// Owned by one call of ParseEvents.
type reader struct {
	strict.Reader
	zone *time.Location
}

func (r *reader) file(data []byte) []forecast.Event {
	if !r.File(data, eventsBytesMax) || r.Root.Kind == strict.Null && r.Root.Word == nil {
		return nil // an empty file has no events
	}
	switch n := len(r.Root.Children); {
	case r.Root.Kind != strict.List:
		r.Fault("", "must be one list of {name, start, end, ramp}, is %v", r.Root)
		return nil
	case n > eventsMax:
		r.Fault("", "there are %d events, at most %d are allowed", n, eventsMax)
		return nil
	}
	var texts []eventText
	r.Decode(r.Root, "", &texts)
	events := make([]forecast.Event, len(texts))
	var names []string
	for i := range texts {
		path := strict.ElementPath("", i)
		if r.Root.Children[i].Kind == strict.Object {
			r.Filled(&r.Root.Children[i], path, "ramp")
			events[i] = r.event(path, &texts[i])
		}
		if name := events[i].Name; !slices.Contains(names, name) {
			names = append(names, name)
			if len(names) == forecast.EventNamesMax+1 {
				r.Fault(path+".name", "%q is one name too many: at most %d are supported", name, forecast.EventNamesMax)
			}
		}
	}
	return events
}

// event converts an event.
func (r *reader) event(path string, text *eventText) forecast.Event {
	before := r.Count()
	r.Check(text.Name == "", path+".name", "is missing")
	r.Check(text.Start == "", path+".start", "is missing")
	r.Check(text.End == "", path+".end", "is missing")
	r.Check(len(text.Name) > nameBytesMax, path+".name", "is longer than %d bytes", nameBytesMax)
	e := forecast.Event{Name: string(text.Name), Start: r.time(text.Start, path+".start"),
		End: r.time(text.End, path+".end")}
	if text.Ramp != "" {
		var err error
		e.Ramp, err = time.ParseDuration(string(text.Ramp))
		if text.Ramp != "0" && (err != nil || e.Ramp < 0 || e.Ramp > rampMax) {
			r.Fault(path+".ramp", "must be a duration such as 30m, at most 168h, is %q", text.Ramp)
		}
	}
	r.Check(r.Count() == before && !e.End.After(e.Start), path+".end", "must be after start")
	return e
}

// time parses a time, with its zone or in that of the settings.
func (r *reader) time(text strict.Scalar, path string) time.Time {
	if text == "" {
		return time.Time{} // reported as missing
	}
	if t, err := time.Parse(time.RFC3339, string(text)); err == nil {
		return t
	}
	for _, form := range []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04",
		time.DateOnly} {
		if t, err := time.ParseInLocation(form, string(text), r.zone); err == nil {
			return t
		}
	}
	r.Fault(path, "must be a time such as 2026-11-27T08:00:00+01:00 or 2026-11-27 08:00, is %q", text)
	return time.Time{}
}
