package xds

import (
	"fmt"

	"github.com/goccy/go-json"

	"weir/internal/data/protowire"
	"weir/internal/data/strict"
	"weir/proxy/rules/descriptor"
	"weir/proxy/rules/rls"
)

// resourceType is the type of ratelimit.config.ratelimit.v3.RateLimitConfig.
const resourceType = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"

// depthMax bounds how deep descriptors, and lists and structures in metadata, may be nested.
const depthMax = 64

// A document is a RateLimitConfig in the form of a file of package descriptor, which validates it.
type document struct {
	name        string
	Domain      string  `json:"domain"`
	Descriptors []entry `json:"descriptors"`
}

type entry struct {
	Key            string         `json:"key"`
	Value          string         `json:"value,omitempty"`
	RateLimit      *rateLimit     `json:"rate_limit,omitempty"`
	Descriptors    []entry        `json:"descriptors,omitempty"`
	ShadowMode     bool           `json:"shadow_mode,omitempty"`
	DetailedMetric bool           `json:"detailed_metric,omitempty"`
	QuotaMode      bool           `json:"quota_mode,omitempty"`
	Metadata       map[string]any `json:"metadata,omitempty"`
}

type rateLimit struct {
	Unit            string    `json:"unit,omitempty"`
	RequestsPerUnit *uint32   `json:"requests_per_unit,omitempty"`
	Unlimited       bool      `json:"unlimited,omitempty"`
	Name            string    `json:"name,omitempty"`
	Replaces        []replace `json:"replaces,omitempty"`

	unit     rls.Unit // RateLimitUnit has the same numbers
	requests uint32
}

type replace struct {
	Name string `json:"name"`
}

// readResource returns a RateLimitConfig as a file.
func readResource(b []byte) (descriptor.File, error) {
	d := document{Descriptors: []entry{}}
	m := protowire.Read(b)
	for m.Next() {
		switch m.Tag {
		case 1<<3 | protowire.Bytes:
			d.name = string(m.Text("name"))
		case 2<<3 | protowire.Bytes:
			d.Domain = string(m.Text("domain"))
		case 3<<3 | protowire.Bytes:
			e, err := readEntry(m.Bytes, 1)
			m.Element("descriptors", len(d.Descriptors), err)
			d.Descriptors = append(d.Descriptors, e)
		}
	}
	text, err := json.Marshal(&d)
	if m.Err() != nil {
		err = m.Err()
	}
	if err != nil {
		err = fmt.Errorf("resource %q: %w", d.name, err)
	}
	return descriptor.File{Name: d.name, Text: text}, err
}

var errDeep = strict.Fault{Message: fmt.Sprintf("must be nested at most %d deep", depthMax)}

func readEntry(b []byte, depth int) (e entry, err error) {
	if depth > depthMax {
		return e, errDeep
	}
	m := protowire.Read(b)
	for m.Next() {
		switch m.Tag {
		case 1<<3 | protowire.Bytes:
			e.Key = string(m.Text("key"))
		case 2<<3 | protowire.Bytes:
			e.Value = string(m.Text("value"))
		case 3<<3 | protowire.Bytes:
			if e.RateLimit == nil {
				e.RateLimit = new(rateLimit)
			}
			m.Within("rate_limit", e.RateLimit.read(m.Bytes))
		case 4<<3 | protowire.Bytes:
			kid, err := readEntry(m.Bytes, depth+1)
			m.Element("descriptors", len(e.Descriptors), err)
			e.Descriptors = append(e.Descriptors, kid)
		case 5<<3 | protowire.Varint:
			e.ShadowMode = m.Number != 0
		case 6<<3 | protowire.Varint:
			e.DetailedMetric = m.Number != 0
		case 7<<3 | protowire.Varint:
			e.QuotaMode = m.Number != 0
		case 8<<3 | protowire.Bytes:
			e.Metadata, err = readStruct(m.Bytes, depth+1)
			m.Within("metadata", err)
		}
	}
	if l := e.RateLimit; l != nil && !l.Unlimited {
		l.Unit, l.RequestsPerUnit = l.unit.String(), &l.requests
	}
	return e, m.Err()
}

// read reads a RateLimitPolicy into l: messages that are given twice are merged.
func (l *rateLimit) read(b []byte) error {
	m := protowire.Read(b)
	for m.Next() {
		switch m.Tag {
		case 1<<3 | protowire.Varint:
			l.unit = rls.Unit(m.Number)
		case 2<<3 | protowire.Varint:
			l.requests = uint32(m.Number)
		case 3<<3 | protowire.Varint:
			l.Unlimited = m.Number != 0
		case 4<<3 | protowire.Bytes:
			l.Name = string(m.Text("name"))
		case 5<<3 | protowire.Bytes:
			name, err := readName(m.Bytes)
			m.Element("replaces", len(l.Replaces), err)
			l.Replaces = append(l.Replaces, replace{name})
		}
	}
	return m.Err()
}

func readName(b []byte) (name string, err error) {
	m := protowire.Read(b)
	for m.Next() {
		if m.Tag == 1<<3|protowire.Bytes {
			name = string(m.Text("name"))
		}
	}
	return name, m.Err()
}
