package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"weir/advisor/forecast"
)

// Bounds on a file of events.
const (
	eventsBytesMax = 1 << 20
	eventsMax      = 1000
	eventNamesMax  = forecast.EventNamesMax
	nameBytesMax   = 100
	rampMax        = 7 * 24 * time.Hour
	bracketsMax    = 4 // open in one line: a list in brackets has two
	faultsMax      = 20
)

// Faults are what is wrong with a file of events.
type Faults []Fault

// A Fault is one thing that is wrong, and where.
type Fault struct {
	Line    int
	Path    string // [2].start
	Message string
}

// Error tells all faults, each with its line and path.
func (f Faults) Error() string {
	texts := make([]string, len(f))
	for i, one := range f {
		texts[i] = fmt.Sprintf("line %d: %s", one.Line, one.Message)
		if one.Path != "" {
			texts[i] = fmt.Sprintf("line %d: %s: %s", one.Line, one.Path, one.Message)
		}
	}
	return strings.Join(texts, "; ")
}

// ReadEvents reads a file of events. Times without a zone are those of zone. What
// is wrong with the content is an error of type Faults.
func ReadEvents(name string, zone *time.Location) ([]forecast.Event, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, eventsBytesMax+1))
	if err != nil {
		return nil, err
	}
	return ParseEvents(data, zone)
}

// ParseEvents reads events as YAML (or JSON, which is YAML):
//
//   - name: sale
//     start: 2026-11-27T08:00:00+01:00   # or 2026-11-27 08:00 in zone
//     end: 2026-11-27T20:00:00+01:00
//     ramp: 30m                          # how long it comes and goes; 0 if absent
//
// The error is of type Faults and tells all that is wrong.
func ParseEvents(data []byte, zone *time.Location) ([]forecast.Event, error) {
	r := reader{zone: zone}
	events := r.file(data)
	if len(r.faults) > 0 {
		return nil, r.faults[:min(len(r.faults), faultsMax)]
	}
	return events, nil
}

// A reader turns a tree of YAML into events and collects faults.
//
// Owned by one call of ParseEvents.
type reader struct {
	zone   *time.Location
	faults Faults
}

func (r *reader) fault(line int, path, format string, args ...any) {
	r.faults = append(r.faults, Fault{line, path, fmt.Sprintf(format, args...)})
}

func (r *reader) file(data []byte) []forecast.Event {
	if len(data) > eventsBytesMax {
		r.fault(1, "", "the file is larger than %d bytes", eventsBytesMax)
		return nil
	}
	if line := tooDeep(string(data)); line > 0 {
		r.fault(line, "", "nested deeper than a list of events")
		return nil
	}
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		var syntax interface {
			GetMessage() string
			GetToken() *token.Token
		}
		if errors.As(err, &syntax) {
			r.fault(lineOf(syntax.GetToken()), "", "not valid YAML: %s", syntax.GetMessage())
		} else {
			r.fault(1, "", "not valid YAML: %v", err)
		}
		return nil
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return nil // an empty file has no events
	}
	list, ok := file.Docs[0].Body.(*ast.SequenceNode)
	if !ok || len(file.Docs) > 1 && file.Docs[1].Body != nil {
		r.fault(lineOf(file.Docs[0].Body.GetToken()), "", "must be one list of {name, start, end, ramp}")
		return nil
	}
	if len(list.Values) > eventsMax {
		r.fault(lineOf(list.Values[eventsMax].GetToken()), "", "there are %d events, at most %d are allowed", len(list.Values), eventsMax)
		return nil
	}
	return r.events(list.Values)
}

// tooDeep returns the first line that is nested deeper than a list of events, or
// 0: the YAML library is recursive.
func tooDeep(text string) int {
	n, open := 0, 0
	for line := range strings.Lines(text) {
		n++
		for _, c := range line {
			switch c {
			case '[', '{':
				open++
			case ']', '}':
				open = max(0, open-1)
			}
		}
		indicators := strings.Count(line[:len(line)-len(strings.TrimLeft(line, " \t-?:!&"))], "-")
		if open > bracketsMax || indicators > bracketsMax && !strings.HasPrefix(line, "---") || len(line)-len(strings.TrimLeft(line, " ")) > 200 {
			return n
		}
	}
	return 0
}

func (r *reader) events(nodes []ast.Node) []forecast.Event {
	events := make([]forecast.Event, 0, len(nodes))
	var names []string
	for i, n := range nodes {
		e := r.event(n, fmt.Sprintf("[%d]", i))
		events = append(events, e)
		if !slices.Contains(names, e.Name) {
			names = append(names, e.Name)
			if len(names) == eventNamesMax+1 {
				r.fault(lineOf(n.GetToken()), fmt.Sprintf("[%d].name", i), "%q is one name too many: at most %d are told apart", e.Name, eventNamesMax)
			}
		}
	}
	return events
}

// event reads one event.
func (r *reader) event(n ast.Node, path string) forecast.Event {
	line := lineOf(n.GetToken())
	var members []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		members = n.Values
	case *ast.MappingValueNode:
		members = []*ast.MappingValueNode{n}
	default:
		r.fault(line, path, "must be {name, start, end, ramp}")
		return forecast.Event{}
	}
	if len(members) > 0 {
		line = lineOf(members[0].Key.GetToken())
	}
	values := make(map[string]field)
	for _, m := range members {
		name := m.Key.GetToken().Value
		at := lineOf(m.Key.GetToken())
		if _, twice := values[name]; twice {
			r.fault(at, path+"."+name, "is there twice")
		}
		values[name] = field{at, word(m.Value)}
		switch name {
		case "name", "start", "end", "ramp":
		default:
			r.fault(at, path+"."+name, "is unknown; there are name, start, end, ramp")
		}
	}
	return r.build(line, path, values)
}

// A field is the text of a value, and where it stands.
type field struct {
	line int
	text string
}

// build makes an event of its fields.
func (r *reader) build(line int, path string, values map[string]field) forecast.Event {
	before := len(r.faults)
	need := func(name string) field {
		f, ok := values[name]
		if !ok || f.text == "" {
			r.fault(max(line, f.line), path+"."+name, "is missing")
		}
		return f
	}
	e := forecast.Event{Name: need("name").text}
	if len(e.Name) > nameBytesMax {
		r.fault(values["name"].line, path+".name", "is longer than %d bytes", nameBytesMax)
	}
	start, end := need("start"), need("end")
	e.Start = r.time(start, path+".start")
	e.End = r.time(end, path+".end")
	if f, ok := values["ramp"]; ok {
		ramp, err := time.ParseDuration(f.text)
		if f.text != "0" && (err != nil || ramp < 0 || ramp > rampMax) {
			r.fault(f.line, path+".ramp", "must be a duration such as 30m, at most %s, is %q", "168h", f.text)
		}
		e.Ramp = ramp
	}
	if len(r.faults) == before && !e.End.After(e.Start) {
		r.fault(end.line, path+".end", "must be after start")
	}
	return e
}

// time reads a moment, with its zone or in that of the settings.
func (r *reader) time(f field, path string) time.Time {
	if f.text == "" {
		return time.Time{} // told as missing
	}
	if t, err := time.Parse(time.RFC3339, f.text); err == nil {
		return t
	}
	for _, form := range []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(form, f.text, r.zone); err == nil {
			return t
		}
	}
	r.fault(f.line, path, "must be a time such as 2026-11-27T08:00:00+01:00 or 2026-11-27 08:00, is %q", f.text)
	return time.Time{}
}

// word is the text of a plain value; of anything else, what begins it.
func word(n ast.Node) string {
	switch n := n.(type) {
	case nil, *ast.NullNode:
		return ""
	case *ast.StringNode:
		return n.Value
	}
	return n.GetToken().Value
}

func lineOf(t *token.Token) int {
	if t == nil || t.Position == nil {
		return 1
	}
	return t.Position.Line
}
