package pattern

import (
	"bytes"
	"strings"
)

// Paths are a set of paths. A nil pointer is the empty set.
//
// Immutable after NewPaths.
type Paths struct {
	exact [][]string // by length
	above []string   // paths that one further segment follows
}

// NewPaths returns the paths that match patterns of [http.ServeMux] without method and host, such as
// /metrics and /config/decisions/{id}.
func NewPaths(patterns []string) *Paths {
	p := new(Paths)
	for _, pattern := range patterns {
		if above, _, found := strings.Cut(pattern, "{"); found {
			p.above = append(p.above, above)
			continue
		}
		for len(p.exact) <= len(pattern) {
			p.exact = append(p.exact, nil)
		}
		p.exact[len(pattern)] = append(p.exact[len(pattern)], pattern)
	}
	return p
}

// Has reports whether a path is one of p.
func (p *Paths) Has(path []byte) bool {
	if p == nil {
		return false
	}
	if n := len(path); n < len(p.exact) {
		for _, one := range p.exact[n] {
			if string(path) == one {
				return true
			}
		}
	}
	for _, above := range p.above {
		if len(path) > len(above) && string(path[:len(above)]) == above && bytes.IndexByte(path[len(above):], '/') < 0 {
			return true
		}
	}
	return false
}
