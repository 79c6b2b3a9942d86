package descriptor

import (
	"errors"
	"net/url"
	"strconv"

	"weir/internal/strict"
	"weir/proxy/limit"
	"weir/proxy/rls"
)

const (
	// fileBytesMax bounds a file.
	fileBytesMax = 8 << 20
	// entriesMax bounds the entries of all files.
	entriesMax = 100_000
)

// A File is one file of descriptors.
type File struct {
	Name string
	Text []byte
}

// A FileError says what is wrong with a file. It wraps [strict.Faults].
type FileError struct {
	File   string
	Faults error
}

// Error has the file before each fault.
func (e *FileError) Error() string { return e.File + ": " + e.Faults.Error() }

// Unwrap returns the faults.
func (e *FileError) Unwrap() error { return e.Faults }

// Read makes domains of files. merge lets several files have the same domain. The error
// joins a *[FileError] for each file with faults.
func Read(files []File, merge bool) (*Domains, error) {
	all := &Domains{byName: make(map[string]*Domain)}
	var wrong []error
	entries := 0
	for i := range files {
		r := reader{domains: all, merge: merge, entries: &entries}
		if r.File(files[i].Text, fileBytesMax) {
			r.whole()
		}
		if err := r.Err(); err != nil {
			wrong = append(wrong, &FileError{files[i].Name, err})
		}
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	return all, nil
}

// A file is a file as it is written.
type file struct {
	Domain      string  `json:"domain"`
	Descriptors []entry `json:"descriptors"`
}

type entry struct {
	Key            string       `json:"key"`
	Value          strict.Word  `json:"value"`
	RateLimit      *rateLimit   `json:"rate_limit"`
	Descriptors    []entry      `json:"descriptors"`
	ShadowMode     bool         `json:"shadow_mode"`
	QuotaMode      bool         `json:"quota_mode"`
	Unlimited      bool         `json:"unlimited"`
	DetailedMetric bool         `json:"detailed_metric"`
	ValueToMetric  bool         `json:"value_to_metric"`
	ShareThreshold bool         `json:"share_threshold"`
	Metadata       *strict.Node `json:"metadata"`
}

type rateLimit struct {
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

// A reader reads one file.
//
// Owned by one call of Read.
type reader struct {
	strict.Reader
	domains *Domains
	merge   bool
	entries *int // of all files
}

// whole judges a file that was read.
func (r *reader) whole() {
	var f file
	r.Nulls = true
	r.Decode(r.Root, "", &f)
	r.Filled(r.Root, "", "domain")
	if r.Root.Kind != strict.Object {
		return
	}
	if r.Root.Member("domain") == nil {
		r.Fault("domain", "is missing; must be the name of the domain")
	}
	d := r.domains.byName[f.Domain]
	switch {
	case d == nil:
		d = &Domain{Name: f.Domain, Rule: "rls/" + url.PathEscape(f.Domain), root: make(levels)}
		r.domains.byName[f.Domain] = d
	case !r.merge:
		r.Fault("domain", "is that of another file too, %q: set MERGE_DOMAIN_CONFIG to let files share a domain", f.Domain)
	}
	if n := r.Root.Member("descriptors"); n != nil && n.Kind == strict.List {
		r.list(n, place{"descriptors", d.Rule}, f.Descriptors, d.root)
	}
}

// A place is where a list is: its path in the file, and the rule above it.
type place struct {
	path, rule string
}

// list adds the entries of a list.
func (r *reader) list(n *strict.Node, at place, entries []entry, into levels) {
	for i := range entries {
		kid := &n.Kids[i]
		if kid.Kind != strict.Object {
			continue
		}
		if *r.entries++; *r.entries > entriesMax {
			if *r.entries == entriesMax+1 {
				r.Fault(at.path, "is too much: all files together must have at most %d descriptors", entriesMax)
			}
			return
		}
		e := &entries[i]
		here := place{strict.Element(at.path, i), at.rule + "/" + url.PathEscape(e.Key)}
		if e.Value != "" {
			here.rule += "=" + url.PathEscape(string(e.Value))
		}
		one := r.entry(kid, here, e)
		r.add(here.path, into, e.Key, one)
		if nested := kid.Member("descriptors"); nested != nil && nested.Kind == strict.List {
			one.below = make(levels)
			r.list(nested, place{here.path + ".descriptors", here.rule}, e.Descriptors, one.below)
		}
	}
}

// add adds an entry to its list.
func (r *reader) add(path string, into levels, key string, one *node) {
	at := into[key]
	if at == nil {
		at = &level{exact: make(map[string]*node)}
		into[key] = at
	}
	switch {
	case one.value == "" && at.bare != nil || at.exact[one.value] != nil:
		r.Fault(path, "is given twice: the same key and value in one list")
	case one.value == "":
		at.bare = one
	default:
		at.exact[one.value] = one
		if one.parts != nil {
			at.wild = append(at.wild, one)
		}
	}
}

// entry judges an entry without those below it.
func (r *reader) entry(n *strict.Node, at place, e *entry) *node {
	r.Filled(n, at.path, "key")
	if n.Member("key") == nil {
		r.Fault(at.path+".key", "is missing")
	}
	one := &node{value: string(e.Value), parts: wildcardOf(string(e.Value)), share: e.ShareThreshold, toMetric: e.ValueToMetric}
	if wildcardOf(e.Key) != nil {
		r.Fault(at.path+".key", "must not have a *, which stands for any text in values only, is %q", e.Key)
	}
	if e.ShareThreshold && one.parts == nil {
		r.Fault(at.path+".share_threshold", "must be false without a value that has a *")
	}
	metadata := r.metadata(e.Metadata, at.path+".metadata")
	switch l := n.Member("rate_limit"); {
	case l != nil && e.RateLimit != nil:
		one.limit = r.limit(l, at.path+".rate_limit", e.RateLimit)
	case e.Unlimited:
		one.limit = new(Limit)
	default:
		return one
	}
	l := one.limit
	l.Rule, l.Metadata = at.rule, metadata
	l.Shadow, l.Quota, l.Detailed = e.ShadowMode, e.QuotaMode, e.DetailedMetric
	l.Unlimited = l.Unlimited || e.Unlimited
	r.domains.limits++
	return one
}

// limit judges the limit of an entry.
func (r *reader) limit(n *strict.Node, path string, l *rateLimit) *Limit {
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
				r.Fault(path+"."+name, "must not be there with unlimited")
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
func (r *reader) theirs(n *strict.Node, path string, l *rateLimit) {
	for _, name := range limit.Fields() {
		if n.Member(name) != nil {
			r.Fault(strict.Member(path, name), "must not be there without algorithm")
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
func (r *reader) own(n *strict.Node, path string) {
	for _, name := range [...]string{"unit", "requests_per_unit"} {
		if n.Member(name) != nil {
			r.Fault(path+"."+name, "must not be there with algorithm")
		}
	}
}

// metadata is an object of any values.
func (r *reader) metadata(n *strict.Node, path string) []rls.Field {
	if n == nil || n.Kind == strict.Null {
		return nil
	}
	if n.Kind != strict.Object {
		r.Fault(path, "must be an object, is %v", n)
		return nil
	}
	return fieldsOf(n)
}

func fieldsOf(n *strict.Node) []rls.Field {
	fields := make([]rls.Field, 0, len(n.Kids))
	for i := range n.Kids {
		fields = append(fields, rls.Field{Name: string(n.Names[i].Word), Value: valueOf(&n.Kids[i])})
	}
	return fields
}

func valueOf(n *strict.Node) rls.Value {
	switch n.Kind {
	case strict.Bool:
		if string(n.Word) == "true" {
			return rls.Value{Kind: rls.BoolValue, Number: 1}
		}
		return rls.Value{Kind: rls.BoolValue}
	case strict.Number:
		number, err := strconv.ParseFloat(string(n.Word), 64)
		if err != nil { // beyond what there are numbers for
			return rls.Value{Kind: rls.TextValue, Text: string(n.Word)}
		}
		return rls.Value{Kind: rls.NumberValue, Number: number}
	case strict.Text:
		return rls.Value{Kind: rls.TextValue, Text: string(n.Word)}
	case strict.List:
		v := rls.Value{Kind: rls.ListValue}
		for i := range n.Kids {
			v.List = append(v.List, valueOf(&n.Kids[i]))
		}
		return v
	case strict.Object:
		return rls.Value{Kind: rls.StructValue, Fields: fieldsOf(n)}
	}
	return rls.Value{}
}
