package descriptor

import (
	"bytes"
	"errors"
	"net/url"
	"strings"

	"weir/internal/data/strict"
)

const (
	fileBytesMax = 8 << 20
	entriesMax   = 100_000 // of all files
)

// RulePrefix begins the rules that descriptors are counted under.
const RulePrefix = "rls/"

// A File is one file of descriptors.
type File struct {
	Name string
	Text []byte
}

// Equal reports whether two files have the same name and text.
func (f File) Equal(other File) bool { return f.Name == other.Name && bytes.Equal(f.Text, other.Text) }

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

// A reader reads one file.
//
// Owned by one call of Read.
type reader struct {
	strict.Reader
	domains *Domains
	merge   bool
	entries *int // of all files
}

// whole adds what a file has.
func (r *reader) whole() {
	f := Decode(&r.Reader)
	if r.Root.Kind != strict.Object {
		return
	}
	d := r.domains.byName[f.Domain]
	switch {
	case d == nil:
		d = &Domain{Name: f.Domain, Rule: RulePrefix + url.PathEscape(f.Domain), root: newList()}
		r.domains.byName[f.Domain] = d
	case !r.merge:
		r.Fault("domain", "is that of another file too, %q: set MERGE_DOMAIN_CONFIG to let files share a domain", f.Domain)
	}
	r.list(place{"descriptors", d.Rule}, f.Descriptors, d.root)
}

// A place is where a list is: its path in the file, and the rule above it.
type place struct {
	path, rule string
}

func (r *reader) list(at place, entries []Entry, into *list) {
	for i := range entries {
		e := &entries[i]
		if e.Path == "" {
			continue
		}
		if *r.entries++; *r.entries > entriesMax {
			r.Check(*r.entries == entriesMax+1, at.path, "is too much: all files together must have at most %d descriptors",
				entriesMax)
			return
		}
		rule := at.rule + "/" + url.PathEscape(e.Key)
		if e.Value != "" {
			rule += "=" + url.PathEscape(string(e.Value))
		}
		one := &node{value: string(e.Value), parts: wildcardOf(string(e.Value)), limit: e.Limit, share: e.ShareThreshold,
			toMetric: e.ValueToMetric, order: *r.entries}
		if e.wildKey() {
			one.prefix = []byte(strings.TrimSuffix(e.Key, "*"))
			into.wild = append(into.wild, one)
		}
		if e.Limit != nil {
			e.Limit.Rule = rule
			r.domains.limits++
		}
		r.add(e.Path, into, e.Key, one)
		if len(e.Descriptors) > 0 {
			one.below = newList()
			r.list(place{e.Path + ".descriptors", rule}, e.Descriptors, one.below)
		}
	}
}

func (r *reader) add(path string, into *list, key string, one *node) {
	at := into.byKey[key]
	if at == nil {
		at = &level{exact: make(map[string]*node)}
		into.byKey[key] = at
	}
	switch {
	case one.value == "" && at.bare != nil || at.exact[one.value] != nil:
		r.Fault(path, DuplicateEntry)
	case one.value == "":
		at.bare = one
	default:
		at.exact[one.value] = one
		if one.parts != nil {
			at.wild = append(at.wild, one)
		}
	}
}
