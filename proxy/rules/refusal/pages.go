// Package refusal defines what refusals look like: the form that a client accepts, the
// templates of their bodies, and fields that the operator adds.
package refusal

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Default is the name of the templates of all refusals without templates of their own.
const Default = "default"

// Bounds of the names of templates, and of one name.
const (
	namesMax     = 1000
	nameBytesMax = 64
)

// Pages are all templates, by name.
//
// Immutable after New.
type Pages struct {
	sets  map[string]*set
	usual *set
}

// A set has the templates of one name. Forms without a template of that name use the
// default one.
type set struct {
	templates [forms]*Template // for JSON nil: the body that the caller supplies
	offered   [forms]bool
	varies    bool // the answer for an API client depends on more of Accept than whether it is a browser
}

// New makes Pages from the contents of files by name, such as default.html or
// partner.json. The error names the file and the line. Without files there is a page for
// browsers, and JSON for others.
func New(files map[string][]byte) (*Pages, error) {
	page, err := ParseTemplate(HTML, []byte(builtIn))
	if err != nil {
		return nil, err
	}
	p := &Pages{sets: map[string]*set{}, usual: &set{}}
	p.usual.templates[HTML] = page
	p.sets[Default] = p.usual
	var faults []string
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if err := p.add(file, files[file]); err != nil {
			faults = append(faults, fmt.Sprintf("%s: %v", file, err))
		}
	}
	if len(faults) > 0 {
		return nil, errors.New(strings.Join(faults, "; "))
	}
	for _, s := range p.sets {
		for f := range forms {
			if s.templates[f] == nil {
				s.templates[f] = p.usual.templates[f]
			}
			s.offered[f] = f == JSON || s.templates[f] != nil
		}
		s.varies = len(files) > 0
	}
	return p, nil
}

func (p *Pages) add(file string, text []byte) error {
	name, form, ok := fileName(file)
	if !ok {
		return fmt.Errorf(
			"must be named NAME.html, NAME.json or NAME.txt with a name of at most %d letters, digits, - and _", nameBytesMax)
	}
	t, err := ParseTemplate(form, text)
	if err != nil {
		return err
	}
	s := p.sets[name]
	if s == nil {
		if len(p.sets) == namesMax {
			return fmt.Errorf("there are more than %d names", namesMax)
		}
		s = &set{}
		p.sets[name] = s
	}
	s.templates[form] = t
	return nil
}

// fileName splits the name of a file.
func fileName(file string) (name string, f Form, ok bool) {
	name, end, _ := strings.Cut(file, ".")
	for f := range forms {
		if end == f.String() {
			return name, f, ValidName(name)
		}
	}
	return "", 0, false
}

// ValidName reports whether templates may have that name.
func ValidName(name string) bool {
	return name != "" && len(name) <= nameBytesMax && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}

// Has reports whether there are templates of that name.
func (p *Pages) Has(name string) bool { return p.sets[name] != nil }

// Pick returns the template of the given name for a client, or the default one if that
// name has none in the client's form.
func (p *Pages) Pick(name string, a Accept) Page {
	s := cmp.Or(p.sets[name], p.usual)
	f := a.pick(&s.offered)
	return Page{Template: s.templates[f], ContentType: f.contentType(), Varies: f != JSON || s.varies}
}

// A Page is the template of one refusal.
type Page struct {
	Template    *Template // nil: the default JSON
	ContentType string
	Varies      bool // depends on Accept, and says so
}
