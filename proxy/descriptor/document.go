package descriptor

import (
	"encoding/json"
	"strconv"
	"strings"

	"weir/internal/strict"
	"weir/proxy/limit"
	"weir/proxy/rls"
)

// Twice is the fault of an entry with the key and the value of one before it.
const Twice = "is given twice: the same key and value in one list"

// A Document is a file as it is written.
type Document struct {
	Domain      string  `json:"domain"`
	Descriptors []Entry `json:"descriptors"`
}

// An Entry is one key of descriptors, with or without a value, and the entries below it.
type Entry struct {
	Key            string       `json:"key"`
	Value          strict.Word  `json:"value,omitempty"`
	ValueToo       strict.Word  `json:"Value,omitempty"` // another spelling; Decode moves it to Value
	RateLimit      *RateLimit   `json:"rate_limit,omitempty"`
	Descriptors    []Entry      `json:"descriptors,omitempty"`
	ShadowMode     bool         `json:"shadow_mode,omitempty"`
	QuotaMode      bool         `json:"quota_mode,omitempty"`
	Unlimited      bool         `json:"unlimited,omitempty"`
	DetailedMetric bool         `json:"detailed_metric,omitempty"`
	ValueToMetric  bool         `json:"value_to_metric,omitempty"`
	ShareThreshold bool         `json:"share_threshold,omitempty"`
	Metadata       *strict.Node `json:"metadata,omitempty"`

	// Path is where the entry is in the file; empty: it is none, and a fault says so.
	Path string `json:"-"`
	// Limit is the entry's limit, without its rule; nil: it has none.
	Limit *Limit `json:"-"`
}

// A RateLimit is what an entry says about its limit.
type RateLimit struct {
	Unit            rls.Unit   `json:"unit"`
	RequestsPerUnit *int64     `json:"requests_per_unit"`
	Unlimited       bool       `json:"unlimited"`
	Name            string     `json:"name"`
	Replaces        []replaced `json:"replaces"`
	limit.Config
}

type replaced struct {
	Name string `json:"name"`
}

// MarshalJSON returns what the limit allows, without its name.
func (l *RateLimit) MarshalJSON() ([]byte, error) {
	if l.Algorithm != 0 {
		return json.Marshal(l.Config)
	}
	text := struct {
		Unit            string `json:"unit,omitempty"`
		RequestsPerUnit *int64 `json:"requests_per_unit,omitempty"`
		Unlimited       bool   `json:"unlimited,omitempty"`
	}{"", l.RequestsPerUnit, l.Unlimited}
	if l.Unit != rls.NoUnit {
		text.Unit = strings.ToLower(l.Unit.String())
	}
	return json.Marshal(text)
}

// Decode reads the root of r as a file and notes its faults.
func Decode(r *strict.Reader) *Document {
	f := &Document{Descriptors: []Entry{}}
	r.Nulls = true
	r.Decode(r.Root, "", f)
	r.Filled(r.Root, "", "domain")
	if r.Root.Kind != strict.Object {
		return f
	}
	if r.Root.Member("domain") == nil {
		r.Fault("domain", "is missing; must be the name of the domain")
	}
	j := judge{r}
	j.list(r.Root.Member("descriptors"), "descriptors", f.Descriptors)
	return f
}

// A judge says what is wrong with a file, whatever it is for.
//
// Owned by one call of Decode.
type judge struct{ *strict.Reader }

// list judges the entries of a list.
func (r *judge) list(n *strict.Node, path string, entries []Entry) {
	for i := range entries {
		if kid := &n.Kids[i]; kid.Kind == strict.Object {
			e := &entries[i]
			e.Path = strict.Element(path, i)
			r.entry(kid, e)
			r.list(kid.Member("descriptors"), e.Path+".descriptors", e.Descriptors)
		}
	}
}

// entry judges an entry without those below it.
func (r *judge) entry(n *strict.Node, e *Entry) {
	r.Filled(n, e.Path, "key")
	if n.Member("key") == nil {
		r.Fault(e.Path+".key", "is missing")
	}
	if n.Member("Value") != nil {
		if n.Member("value") != nil {
			r.Fault(e.Path+".Value", "given twice, as value too")
		}
		e.Value, e.ValueToo = e.ValueToo, ""
	}
	if wildcardOf(e.Key) != nil {
		r.Fault(e.Path+".key", "must be one key without *, which only values may have, is %q", e.Key)
	}
	if e.ShareThreshold && wildcardOf(string(e.Value)) == nil {
		r.Fault(e.Path+".share_threshold", "must be false without a value that has a *")
	}
	metadata := r.metadata(e.Metadata, e.Path+".metadata")
	switch l := n.Member("rate_limit"); {
	case l != nil && e.RateLimit != nil:
		e.Limit = r.limit(l, e.Path+".rate_limit", e.RateLimit)
	case e.Unlimited:
		e.Limit = new(Limit)
	default:
		return
	}
	l := e.Limit
	l.Metadata, l.Unlimited = metadata, l.Unlimited || e.Unlimited
	l.Shadow, l.Quota, l.Detailed = e.ShadowMode, e.QuotaMode, e.DetailedMetric
}

// limit judges the limit of an entry.
func (r *judge) limit(n *strict.Node, path string, l *RateLimit) *Limit {
	made := &Limit{Unlimited: l.Unlimited, Shown: rls.Limit{Given: true, Name: l.Name}}
	r.Filled(n, path, "name")
	for i, one := range l.Replaces {
		at := strict.Element(path+".replaces", i) + ".name"
		switch one.Name {
		case "":
			r.Fault(at, "must be the name of another limit")
		case l.Name:
			r.Fault(at, "must be the name of another limit, is the limit's own")
		}
		made.Replaces = append(made.Replaces, one.Name)
	}
	var err error
	switch {
	case l.Unlimited:
		for _, name := range [...]string{"unit", "algorithm"} {
			if n.Member(name) != nil {
				r.Fault(path+"."+name, "is not allowed with unlimited")
			}
		}
		return made
	case n.Member("algorithm") != nil:
		r.own(n, path)
		made.Limit, err = limit.New(l.Config)
		r.Under(path, err)
		if l.Algorithm == limit.Leaky {
			r.Fault(path+".algorithm", "must be another one: leaky lets requests wait, and Envoy does not")
		}
		made.Shown.RequestsPerUnit, made.Shown.Unit = rls.Count(made.Limit.Permits()), rls.UnitOf(made.Limit.Window())
		return made
	}
	r.theirs(n, path, l)
	if l.Unit != rls.NoUnit && l.RequestsPerUnit != nil {
		made.Limit, err = limit.NewFixed(*l.RequestsPerUnit, l.Unit.Window())
		r.Under(path, err)
		made.Shown.RequestsPerUnit, made.Shown.Unit = rls.Count(*l.RequestsPerUnit), l.Unit
	}
	return made
}

// theirs judges the form of envoyproxy/ratelimit.
func (r *judge) theirs(n *strict.Node, path string, l *RateLimit) {
	for _, name := range limit.Fields() {
		if n.Member(name) != nil {
			r.Fault(strict.Member(path, name), "is not allowed without algorithm")
		}
	}
	if n.Member("unit") == nil {
		r.Fault(path+".unit", "is missing; must be one of %s", rls.UnitNames)
	}
	if l.RequestsPerUnit == nil {
		r.Fault(path+".requests_per_unit", "is missing; must be a whole number, 0 refuses all")
	} else {
		r.Range(path+".requests_per_unit", *l.RequestsPerUnit, 0, 1<<32-1)
	}
}

// own judges the form of Weir's own limits.
func (r *judge) own(n *strict.Node, path string) {
	for _, name := range [...]string{"unit", "requests_per_unit"} {
		if n.Member(name) != nil {
			r.Fault(path+"."+name, "is not allowed with algorithm")
		}
	}
}

// metadata is an object of any values.
func (r *judge) metadata(n *strict.Node, path string) rls.Struct {
	if n == nil || n.Kind == strict.Null {
		return nil
	}
	if n.Kind != strict.Object {
		r.Fault(path, "must be an object, is %v", n)
		return nil
	}
	return structOf(n)
}

func structOf(n *strict.Node) rls.Struct {
	s := make(rls.Struct, len(n.Kids))
	for i := range n.Kids {
		s[string(n.Names[i].Word)] = valueOf(&n.Kids[i])
	}
	return s
}

func valueOf(n *strict.Node) any {
	switch n.Kind {
	case strict.Bool:
		return string(n.Word) == "true"
	case strict.Number:
		if number, err := strconv.ParseFloat(string(n.Word), 64); err == nil {
			return number
		}
		return string(n.Word) // beyond what there are numbers for
	case strict.Text:
		return string(n.Word)
	case strict.List:
		list := make([]any, len(n.Kids))
		for i := range n.Kids {
			list[i] = valueOf(&n.Kids[i])
		}
		return list
	case strict.Object:
		return structOf(n)
	}
	return nil
}
