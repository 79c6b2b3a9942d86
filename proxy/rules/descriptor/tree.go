package descriptor

import (
	"bytes"
	"strconv"

	"weir/proxy/limit"
	"weir/proxy/rules/rls"
)

// Domains are the limits of all domains.
//
// Immutable after New.
type Domains struct {
	byName map[string]*Domain
	limits int
}

// Domain returns a domain; nil: there is none of this name.
func (d *Domains) Domain(name []byte) *Domain { return d.byName[string(name)] }

// Len returns how many domains and limits there are: none in nil.
func (d *Domains) Len() (domains, limits int) {
	if d == nil {
		return 0, 0
	}
	return len(d.byName), d.limits
}

// A Domain is the limits of one domain.
//
// Immutable after New.
type Domain struct {
	Name string
	// Rule is the rule of limits that descriptors bring themselves.
	Rule string
	root *list
}

// A Limit is what an entry of a file allows.
//
// Immutable after New.
type Limit struct {
	Rule      string // that its keys are counted under
	Limit     limit.Limit
	Shown     rls.Limit // in answers
	Replaces  []string  // the names of limits that do not apply beside this one
	Unlimited bool
	Shadow    bool // counted, never refused
	Quota     bool // refused only with all others of this kind
	Detailed  bool // its series have the values of all entries
	Metadata  rls.Struct
}

// A list is the entries of one list.
type list struct {
	byKey map[string]*level
	wild  []*node // those for all keys with a prefix, in the order of the file
}

func newList() *list { return &list{byKey: make(map[string]*level)} }

// A level is the entries of one key in one list.
type level struct {
	bare  *node
	exact map[string]*node // by value; also wildcards, for a value that is their text
	wild  []*node          // in the order of the file
}

// A node is an entry.
type node struct {
	value    string // empty: a bare key
	parts    wildcard
	limit    *Limit
	below    *list  // nil: nothing
	prefix   []byte // of the keys of list.wild
	order    int    // in the files
	share    bool   // all values of a wildcard are counted together
	toMetric bool   // the series has the value that came
}

// find returns the entry for a key with a value: the one with both, or else the first wildcard that
// matches, or else the bare key.
func (l *list) find(e *rls.Entry) *node {
	if l == nil {
		return nil
	}
	at := l.byKey[string(e.Key)]
	if at == nil {
		return l.findWild(e, nil)
	}
	if n := at.exact[string(e.Value)]; n != nil {
		return n
	}
	for _, n := range at.wild {
		if n.parts.match(e.Value) {
			return l.findWild(e, n)
		}
	}
	if n := l.findWild(e, nil); n != nil {
		return n
	}
	return at.bare
}

// findWild returns the first entry for all keys with a prefix that e has, or n if that is before it.
func (l *list) findWild(e *rls.Entry, n *node) *node {
	for _, wild := range l.wild {
		if n != nil && n.order < wild.order {
			break
		}
		if wild.matchKey(e) {
			return wild
		}
	}
	return n
}

// matchKey reports whether the text of an entry, which is its key, a _ and its value, has the prefix.
func (n *node) matchKey(e *rls.Entry) bool {
	rest, longer := bytes.CutPrefix(n.prefix, e.Key)
	if !longer || len(rest) == 0 {
		return bytes.HasPrefix(e.Key, n.prefix)
	}
	return rest[0] == '_' && bytes.HasPrefix(e.Value, rest[1:])
}

// A LookupResult is what a descriptor has found. It is used again.
//
// Owned by its loop.
type LookupResult struct {
	Limit *Limit // nil: none
	steps []*node
}

// Walk finds the limit of a descriptor: that of the entry in the tree which its last entry
// reaches. A descriptor that is longer than the path in the tree, or ends at an entry without a
// limit, finds none.
func (d *Domain) Walk(entries []rls.Entry, f *LookupResult) {
	f.Limit, f.steps = nil, f.steps[:0]
	at := d.root
	for i := range entries {
		n := at.find(&entries[i])
		if n == nil {
			return
		}
		f.steps = append(f.steps, n)
		if i == len(entries)-1 {
			f.Limit = n.limit
			return
		}
		at = n.below
	}
}

// AppendKey appends the key under which the descriptor is counted: the entries, each with its
// length, so that no two descriptors share a key. A value under share_threshold is replaced by
// its wildcard.
func (r *LookupResult) AppendKey(dst []byte, entries []rls.Entry) []byte {
	for i := range entries {
		dst = appendPart(dst, entries[i].Key)
		if r.Limit != nil && r.steps[i].share {
			dst = appendPart(dst, r.steps[i].value)
		} else {
			dst = appendPart(dst, entries[i].Value)
		}
	}
	return dst
}

// seriesLevels is how many entries name a series: deeper ones are counted with those of the
// same beginning, as the default mapping of envoyproxy/ratelimit to Prometheus does.
const seriesLevels = 2

// AppendSeries appends the name of the series that counts what was found: the key of each of the
// first two entries, and after an underscore its value if the file or a flag names one. The two
// entries are separated by a zero byte. Within them a zero byte, and every character that statsd
// does not accept, is written as an underscore.
func (r *LookupResult) AppendSeries(dst []byte, entries []rls.Entry) []byte {
	for i := range entries[:min(len(entries), seriesLevels)] {
		if i > 0 {
			dst = append(dst, 0)
		}
		begin := len(dst)
		dst = append(dst, entries[i].Key...)
		value := string(entries[i].Value)
		if r.Limit != nil {
			value = r.steps[i].shown(value, r.Limit.Detailed)
		}
		if value != "" {
			dst = append(append(dst, '_'), value...)
		}
		for at := begin; at < len(dst); at++ {
			switch dst[at] {
			case ':', '|', 0:
				dst[at] = '_'
			}
		}
	}
	return dst
}

// shown is the value that a series has for an entry which arrived at n.
func (n *node) shown(value string, detailed bool) string {
	if n.share || !detailed && !n.toMetric {
		return n.value
	}
	return value
}

func appendPart[T string | []byte](dst []byte, part T) []byte {
	return append(append(strconv.AppendInt(dst, int64(len(part)), 10), ':'), part...)
}

// A wildcard is a text with one or more *, each of which stands for any text: what is
// between them.
type wildcard [][]byte

// match reports whether a value is one that the wildcard stands for.
func (w wildcard) match(value []byte) bool {
	first, last := w[0], w[len(w)-1]
	if len(value) < len(first)+len(last) || !bytes.HasPrefix(value, first) || !bytes.HasSuffix(value, last) {
		return false
	}
	rest := value[len(first) : len(value)-len(last)]
	for _, part := range w[1 : len(w)-1] {
		_, after, found := bytes.Cut(rest, part)
		if !found {
			return false
		}
		rest = after
	}
	return true
}

// wildcardOf returns the wildcard that a value is; nil: it is none.
func wildcardOf(value string) wildcard {
	if parts := bytes.Split([]byte(value), []byte("*")); len(parts) > 1 {
		return parts
	}
	return nil
}
