package rule

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"weir/internal/data/strict"
	"weir/proxy/limit"
	"weir/proxy/rules/descriptor"
	"weir/proxy/rules/keys"
)

// MatchedRulesMax is the largest number of matches of one request. They are decided together with
// the rule [GlobalID], which makes store.CountersMax.
const MatchedRulesMax = 8

// partsMax bounds the different parts that a file may use.
const partsMax = 256

// NoRules is an empty rule file, for a proxy without RULES_FILE.
const NoRules = `{"rules":[]}`

// Options are what a Set is made from besides its file.
type Options struct {
	// Clients are the limits of CLIENTS_FILE, or nil.
	Clients *Clients
	// ClientKey is the setting CLIENT_KEY: the key of the built-in rule "clients", which
	// exists with Clients if no rule has clients: true.
	ClientKey keys.Part
	// DescriptorKeys is the setting DESCRIPTOR_KEYS.
	DescriptorKeys DescriptorKeys
	// Exempt is the setting EXEMPT.
	Exempt Exemptions
	// ExemptPreflights is PREFLIGHT=exempt.
	ExemptPreflights bool
	// HasTemplate, if not nil, reports whether there are refusal templates of that name.
	HasTemplate func(name string) bool
	Defers      bool // refused requests can be stored: DEFER_URL is set, and there is a target
	Callbacks   bool // and their clients can be called back: DEFER_CALLBACK_HOSTS is set
	// IgnoredMembers are further members that a JSON file may have. They are ignored.
	IgnoredMembers []string
	// Unknown, if not nil, is called for unknown fields, which are then ignored instead
	// of faults. It is for files that a newer proxy may have written.
	Unknown func(strict.Fault)
}

// A Set is the rules in force. It is replaced as a whole.
//
// Immutable after New.
type Set struct {
	rules   []compiled  // in the order of the file, the built-in one last
	parts   []keys.Part // by slot
	clients *Clients
	index   index
	file    *descriptor.Document // nil: rules
	own     int                  // number of rules from the file
	shares  []int64              // shares kept back from any class of any rule, ascending
	classes []string             // for each share, the name of a class from which it is kept back
	notes   strict.Faults

	exempt    []exemption
	exempting []Rule // those of the file, then that of EXEMPT
	written   []Rule // those of the file, in its order
}

// Read returns the rules of a file, which is YAML or JSON and has rules at its top, or
// domain and descriptors. The error is a [strict.Faults] with all faults.
func Read(data []byte, o Options) (*Set, error) {
	j := judge{Reader: &strict.Reader{Unknown: o.Unknown}, o: o}
	s := &Set{clients: o.Clients}
	if !j.File(data, fileBytesMax) {
		return nil, j.Err()
	}
	j.Root.Drop(o.IgnoredMembers)
	switch {
	case j.Root.Kind == strict.Null && j.Root.Word == nil:
		j.Fault("", "is empty; must be an object with rules, or with domain and descriptors; rules: [] is no rules")
	case given(j.Root, "domain") || given(j.Root, "descriptors"):
		s.file, s.rules = j.descriptors()
	default:
		s.rules = j.rules()
	}
	j.splitExempt(s)
	s.own = len(s.rules)
	j.addClients(s)
	if err := j.Err(); err != nil {
		return nil, err
	}
	s.assign()
	j.clientRules(s)
	if len(s.parts) > partsMax {
		j.Fault("", "must not look at more than %d different fields, cookies and parameters, looks at %d", partsMax,
			len(s.parts))
	} else {
		j.overlaps(s)
	}
	if err := j.Err(); err != nil {
		return nil, err
	}
	s.notes = j.Notes()
	s.index = newIndex(s.rules)
	for i := range s.rules {
		s.shares = slices.AppendSeq(s.shares, maps.Values(s.rules[i].shares))
	}
	slices.Sort(s.shares)
	s.shares = slices.Compact(s.shares)
	s.nameClasses()
	return s, nil
}

// nameClasses names the ranks. If several classes share a rank, the name is that of the
// first rule, first in alphabetical order.
func (s *Set) nameClasses() {
	s.classes = make([]string, len(s.shares))
	for i := range s.rules {
		for _, name := range slices.Sorted(maps.Keys(s.rules[i].shares)) {
			if at, _ := slices.BinarySearch(s.shares, s.rules[i].shares[name]); s.classes[at] == "" {
				s.classes[at] = name
			}
		}
	}
}

// Classes returns for each rank the name of a priority class of that rank. It is empty if
// no rule has classes. A name may be empty. The caller must not modify the slice.
func (s *Set) Classes() []string { return s.classes }

// Notes returns what is allowed and has no effect in the file, and in the client file
// with it. There are at most 100 notes.
func (s *Set) Notes() strict.Faults { return s.notes }

// addClients adds the built-in rule for clients if it is needed.
func (j *judge) addClients(s *Set) {
	if s.clients == nil || slices.ContainsFunc(s.rules, func(c compiled) bool { return c.Clients }) {
		return
	}
	key := j.o.ClientKey
	if key.Source == keys.None || key.Source == keys.Global {
		j.Fault("CLIENT_KEY", "must be a part that tells clients apart, such as header:X-Client-Id, is %q", key)
	}
	s.rules = append(s.rules, compiled{Rule: Rule{ID: ClientsRule, Key: []keys.Part{key}, Clients: true}})
}

// none is the slot of a missing part.
const none = -1

// assign gives each different part a slot.
func (s *Set) assign() {
	slots := make(map[keys.Part]int)
	slot := func(p keys.Part) int {
		p = p.Canonical()
		i, ok := slots[p]
		if !ok {
			i = len(s.parts)
			slots[p] = i
			s.parts = append(s.parts, p)
		}
		return i
	}
	field := func(name string) int {
		if name == "" {
			return none
		}
		return slot(keys.Part{Source: keys.Header, Name: name})
	}
	for i := range s.rules {
		c := &s.rules[i]
		c.preflights = PreflightCounter(c.ID)
		for k := range c.conditions {
			c.conditions[k].Slot = slot(c.conditions[k].part)
		}
		for _, part := range c.Key {
			if part.Source != keys.Global {
				c.key = append(c.key, slot(part))
			}
		}
		c.cost, c.priority = field(c.Cost.Header), field(c.Priority.Header)
	}
}

// clientRules prepares the rules for the client file: the clients' limits as each rule
// has them, and what is kept back from the clients' classes. A class that no rule knows
// is a fault, except while there are no rules, or when they come from the store, which
// other proxies write: then clients may have classes before the rules do.
func (j *judge) clientRules(s *Set) {
	if s.clients == nil {
		return
	}
	classes := make(map[string]bool)
	softened := make(map[limit.Soft][]limit.Limit) // the clients' limits
	for i := range s.rules {
		j.clientLimits(&s.rules[i], s.clients, softened)
		j.respell(&s.rules[i], s)
		for class := range s.rules[i].shares {
			classes[class] = true
		}
	}
	for i, class := range s.clients.classes {
		for i := range s.rules {
			c := &s.rules[i]
			share, ok := c.shares[class]
			if !ok {
				share = -1
			}
			c.clients = append(c.clients, share)
		}
		first := slices.IndexFunc(s.clients.entries, func(e client) bool { return int(e.class) == i+1 })
		name := s.nameOf(s.clients.name(first))
		switch {
		case classes[class]:
		case len(classes) > 0:
			j.Fault("", "must have the class %q, which is the priority of client %q in the client file; the classes are %s",
				class, name, strings.Join(slices.Sorted(maps.Keys(classes)), ", "))
		case s.own == 0 || j.Unknown != nil:
			j.Note("", "the priority %q of client %q in the client file has no effect: no rule has priority classes", class,
				name)
		default:
			j.Fault("", "must have the class %q, which is the priority of client %q in the client file; no rule "+
				"has priority classes", class, name)
		}
	}
}

// softenedMax bounds how many soft limits are made from the clients' limits.
const softenedMax = 1_000_000

// ClientKeys returns the parts whose values name clients, from the rules with clients:
// true.
func (s *Set) ClientKeys() (parts []keys.Part) {
	for i := range s.rules {
		if s.rules[i].Clients {
			parts = append(parts, s.rules[i].Key...)
		}
	}
	return parts
}

// nameOf returns the name of a client as it may be shown to people.
func (s *Set) nameOf(client []byte) string {
	if slices.ContainsFunc(s.ClientKeys(), keys.Part.Secret) {
		return keys.Redacted(client)
	}
	return string(client)
}

// clientLimits gives a rule the limits of the clients, made soft if the rule is. Rules
// that are equally soft share them.
func (j *judge) clientLimits(c *compiled, clients *Clients, softened map[limit.Soft][]limit.Limit) {
	if !c.Clients {
		return
	}
	c.limits = clients.limits
	if c.Soft == (limit.Soft{}) {
		return
	}
	var known bool
	if c.limits, known = softened[c.Soft]; known {
		return
	}
	if (len(softened)+1)*len(clients.limits) > softenedMax {
		j.Fault(c.path+".soft",
			"must be the same in more rules: different ones times the %d limits of the client file must be at most %d",
			len(clients.limits), softenedMax)
		return
	}
	c.limits = make([]limit.Limit, len(clients.limits))
	softened[c.Soft] = c.limits
	for i, hard := range clients.limits {
		var err error
		if c.limits[i], err = hard.WithSoft(c.Soft); err != nil {
			j.Fault(c.path+".soft", "must also be valid with the limits of the client file: %s with %+v", err, hard.Config())
		}
	}
}

// HasField reports whether a rule looks at the field of that name, or at one for which some targets take it.
func (s *Set) HasField(name []byte) bool {
	return s != nil && slices.ContainsFunc(s.parts, func(p keys.Part) bool { return p.IsField(name) })
}

// Len returns the number of rules, including the built-in one for clients, without those
// that exempt.
func (s *Set) Len() int { return len(s.rules) }

// Rule returns a rule by index; see [MatchedRule.Index] and [Set.Exempting].
func (s *Set) Rule(i int) *Rule {
	if i >= len(s.rules) {
		return &s.exempting[i-len(s.rules)]
	}
	return &s.rules[i].Rule
}

// MarshalJSON returns the rules as a document that [Read] reads: the file's
// rules, or its domain and descriptors, without comments.
func (s *Set) MarshalJSON() ([]byte, error) {
	if s.file != nil {
		return plainJSON(s.file)
	}
	return plainJSON(struct {
		Rules []Rule `json:"rules"`
	}{s.written})
}

// plainJSON is json.Marshal without HTML escapes, which take six bytes for one.
func plainJSON(v any) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}
