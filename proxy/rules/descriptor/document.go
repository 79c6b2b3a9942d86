package descriptor

import (
	"encoding/json"
	"strings"

	"weir/internal/data/strict"
	"weir/proxy/limit"
	"weir/proxy/rules/rls"
)

// DuplicateEntry is the fault of an entry with the key and the value of one before it.
const DuplicateEntry = "is given twice: the same key and value in one list"

// A Document is a file as it is written.
type Document struct {
	Domain      string        `json:"domain"`
	Descriptors []Entry       `json:"descriptors"`
	Name        strict.Scalar `json:"name,omitempty"` // skipped, as in entries: envoyproxy/ratelimit accepts it anywhere
}

// An Entry is one key of descriptors, with or without a value, and the entries below it.
type Entry struct {
	Key            string         `json:"key"`
	Value          strict.Scalar  `json:"value,omitempty"`
	ValueToo       strict.Scalar  `json:"Value,omitempty"` // another spelling; Decode moves it to Value
	RateLimit      *RateLimitSpec `json:"rate_limit,omitempty"`
	Descriptors    []Entry        `json:"descriptors,omitempty"`
	ShadowMode     bool           `json:"shadow_mode,omitempty"`
	QuotaMode      bool           `json:"quota_mode,omitempty"`
	Unlimited      bool           `json:"unlimited,omitempty"`
	DetailedMetric bool           `json:"detailed_metric,omitempty"`
	ValueToMetric  bool           `json:"value_to_metric,omitempty"`
	ShareThreshold bool           `json:"share_threshold,omitempty"`
	Metadata       rls.Struct     `json:"metadata,omitempty"`
	Name           strict.Scalar  `json:"name,omitempty"`

	// Path is where the entry is in the file; empty: it is none, and a fault says so.
	Path string `json:"-"`
	// Limit is the entry's limit, without its rule; nil: it has none.
	Limit *Limit `json:"-"`
}

// wildKey reports whether the entry is for all keys with a prefix: its key ends in a * and has no
// value. In a key with a value, or elsewhere in a key, a * stands for itself.
func (e *Entry) wildKey() bool { return e.Value == "" && strings.HasSuffix(e.Key, "*") }

// A RateLimitSpec is what an entry says about its limit.
type RateLimitSpec struct {
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
func (l *RateLimitSpec) MarshalJSON() ([]byte, error) {
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
	r.Check(r.Root.Member("domain") == nil, "domain", "is missing; must be the name of the domain")
	j := judge{r}
	j.list(r.Root.Member("descriptors"), "descriptors", f.Descriptors)
	return f
}

// A judge validates a file, whatever it is for.
//
// Owned by one call of Decode.
type judge struct{ *strict.Reader }

func (r *judge) list(n *strict.Node, path string, entries []Entry) {
	for i := range entries {
		if kid := &n.Children[i]; kid.Kind == strict.Object {
			e := &entries[i]
			e.Path = strict.ElementPath(path, i)
			r.entry(kid, e)
			r.list(kid.Member("descriptors"), e.Path+".descriptors", e.Descriptors)
		}
	}
}

// entry judges an entry without those below it.
func (r *judge) entry(n *strict.Node, e *Entry) {
	r.Filled(n, e.Path, "key")
	r.Check(n.Member("key") == nil, e.Path+".key", "is missing")
	if n.Member("Value") != nil {
		r.Check(n.Member("value") != nil, e.Path+".Value", "given twice, as value too")
		e.Value, e.ValueToo = e.ValueToo, ""
	}
	r.Check(e.ShareThreshold && wildcardOf(string(e.Value)) == nil && !e.wildKey(), e.Path+".share_threshold",
		"must be false without a value that has a *, or a key without value that ends with *")
	switch l := n.Member("rate_limit"); {
	case l != nil && e.RateLimit != nil:
		e.Limit = r.limit(l, e.Path+".rate_limit", e.RateLimit)
	case e.Unlimited:
		e.Limit = new(Limit)
	default:
		return
	}
	l := e.Limit
	l.Metadata, l.Unlimited = e.Metadata, l.Unlimited || e.Unlimited
	l.Shadow, l.Quota, l.Detailed = e.ShadowMode, e.QuotaMode, e.DetailedMetric
}

func (r *judge) limit(n *strict.Node, path string, l *RateLimitSpec) *Limit {
	made := &Limit{Unlimited: l.Unlimited, Shown: rls.Limit{Given: true, Name: l.Name}}
	for i, one := range l.Replaces {
		at := strict.ElementPath(path+".replaces", i) + ".name"
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
		r.without(n, path, "with unlimited", "unit", "algorithm")
		return made
	case n.Member("algorithm") != nil:
		r.without(n, path, "with algorithm", "unit", "requests_per_unit")
		made.Limit, err = limit.New(l.Config)
		r.AddFaults(path, err)
		r.Check(l.Algorithm == limit.Leaky, path+".algorithm",
			"must be another one: leaky lets requests wait, and Envoy does not")
		made.Shown.RequestsPerUnit, made.Shown.Unit = rls.ClampUint32(made.Limit.Permits()), rls.UnitOf(made.Limit.Window())
		return made
	}
	r.theirs(n, path, l)
	if l.Unit != rls.NoUnit {
		made.Limit, err = limit.NewFixed(*l.RequestsPerUnit, l.Unit.Window())
		r.AddFaults(path, err)
		made.Shown.RequestsPerUnit, made.Shown.Unit = rls.ClampUint32(*l.RequestsPerUnit), l.Unit
	}
	return made
}

// theirs judges the form of envoyproxy/ratelimit.
func (r *judge) theirs(n *strict.Node, path string, l *RateLimitSpec) {
	r.without(n, path, "without algorithm", limit.Fields()...)
	r.Check(n.Member("unit") == nil, path+".unit", "is missing; must be one of %s", rls.UnitNames)
	if l.RequestsPerUnit == nil {
		l.RequestsPerUnit = new(int64)
	}
	r.Range(path+".requests_per_unit", *l.RequestsPerUnit, 0, 1<<32-1)
}

// without reports the members of n that are not allowed, and when they are not.
func (r *judge) without(n *strict.Node, path, when string, names ...string) {
	for _, name := range names {
		r.Check(n.Member(name) != nil, strict.MemberPath(path, name), "is not allowed %s", when)
	}
}
