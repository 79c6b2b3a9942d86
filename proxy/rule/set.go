package rule

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"weir/internal/strict"
	"weir/proxy/descriptor"
	"weir/proxy/keys"
	"weir/proxy/limit"
)

// HitsMax is the largest number of hits of one request. They are decided together
// with the rule [Global] (store.CountersMax).
const HitsMax = 8

// partsMax bounds the different parts that a file may look at.
const partsMax = 256

// NoRules is the file that has no rules, for a proxy without RULES_FILE.
const NoRules = `{"rules":[]}`

// Options are what a Set is made of besides its file.
type Options struct {
	// Clients are the limits of CLIENTS_FILE; nil when there is none.
	Clients *Clients
	// ClientKey is the setting CLIENT_KEY: with Clients and no rule that has
	// clients: true it is the key of the built-in rule "clients".
	ClientKey keys.Part
	// DescriptorKeys is the setting DESCRIPTOR_KEYS.
	DescriptorKeys DescriptorKeys
	// Exempt is the setting EXEMPT.
	Exempt Exemptions
	// ExemptPreflights is PREFLIGHT=exempt.
	ExemptPreflights bool
	// HasTemplate, unless nil, says whether there are templates of that name for refusals.
	HasTemplate func(name string) bool
	Defers      bool // refused requests can be kept: DEFER_URL is set, and there is a target
	Callbacks   bool // and their clients be called back: DEFER_CALLBACK_HOSTS is set
	// Beside are members that JSON may have beside those of a file; they mean nothing.
	Beside []string
	// Unknown, unless nil, is told of fields that are not known, which then are no
	// faults but passed over. It is for what a newer proxy may have written.
	Unknown func(strict.Fault)
}

// A Set is the rules in force. It is made whole and replaced whole.
//
// Immutable after New.
type Set struct {
	rules   []compiled  // in the file's order, the built-in one last
	parts   []keys.Part // by slot
	clients *Clients
	index   index
	file    *descriptor.Document // nil: rules
	own     int                  // how many of rules are the file's
	shares  []int64              // kept back from any class of any rule, ascending
	classes []string             // the name of a class from which so much is kept back
	notes   strict.Faults

	exempt    []exemption
	exempting []Rule // the file's, then that of EXEMPT
	order     []bool // of the file's rules: which exempt
}

// Read returns the rules of a file, which is YAML or JSON and has rules at its
// top, or domain and descriptors. The error is a [strict.Faults], which names all that
// is wrong.
func Read(data []byte, o Options) (*Set, error) {
	j := judge{Reader: &strict.Reader{Unknown: o.Unknown}, o: o}
	s := &Set{clients: o.Clients}
	if !j.File(data, fileBytesMax) {
		return nil, j.Err()
	}
	j.Root.Drop(o.Beside)
	switch {
	case j.Root.Kind == strict.Null && j.Root.Word == nil:
		j.Fault("", "is empty; must be an object with rules, or with domain and descriptors; rules: [] is no rules")
	case given(j.Root, "domain") || given(j.Root, "descriptors"):
		s.file, s.rules = j.descriptors(o.DescriptorKeys)
	default:
		s.rules = j.rules()
	}
	j.splitExempt(s, o)
	s.own = len(s.rules)
	j.addClients(s, o)
	if err := j.Err(); err != nil {
		return nil, err
	}
	s.assign()
	j.clientRules(s)
	if len(s.parts) > partsMax {
		j.Fault("", "must not look at more than %d different fields, cookies and parameters, looks at %d", partsMax, len(s.parts))
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

// nameClasses names the ranks: of several classes the first rule's first in alphabetical
// order.
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

// Classes returns for each rank the name of a priority class of that rank; none: no rule
// has classes. A name may be empty. Not to be changed.
func (s *Set) Classes() []string { return s.classes }

// Notes returns what of the file, or of the client file with it, is allowed and has no
// effect; at most 100.
func (s *Set) Notes() strict.Faults { return s.notes }

// addClients adds the built-in rule for clients when it is needed.
func (j *judge) addClients(s *Set, o Options) {
	has := func(c compiled) bool { return c.Clients }
	if o.Clients == nil || slices.ContainsFunc(s.rules, has) {
		return
	}
	if o.ClientKey.Source == keys.None || o.ClientKey.Source == keys.Global {
		j.Fault("CLIENT_KEY", "must be a part that tells clients apart, such as header:X-Client-Id, is %q", o.ClientKey)
	}
	s.rules = append(s.rules, compiled{Rule: Rule{ID: ClientsRule, Key: []keys.Part{o.ClientKey}, Clients: true}})
}

// none is the slot of a part that is not there.
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
		c.preflights = PreflightsOf(c.ID)
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

// clientRules prepares the rules for what the client file says: its limits as
// each rule has them, and what is kept back from its classes. A class that no
// rule knows is a fault. But while there are no rules, or they come from the store,
// which other proxies write, clients may have classes before the rules do.
func (j *judge) clientRules(s *Set) {
	if s.clients == nil {
		return
	}
	classes := make(map[string]bool)
	softened := make(map[limit.Soft][]limit.Limit) // the clients' limits
	for i := range s.rules {
		j.clientLimits(&s.rules[i], s.clients, softened)
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
		name := s.nameOf(s.clients.firstOf(i))
		switch {
		case classes[class]:
		case len(classes) > 0:
			j.Fault("", "must have the priority %q of client %q in the client file as a class of a rule; the classes are %s",
				class, name, strings.Join(slices.Sorted(maps.Keys(classes)), ", "))
		case s.own == 0 || j.Unknown != nil:
			j.Note("", "the priority %q of client %q in the client file has no effect: no rule has priority classes", class, name)
		default:
			j.Fault("", "must have the priority %q of client %q in the client file as a class of a rule; no rule has priority classes", class, name)
		}
	}
}

// softenedMax bounds the limits that come of the clients' limits by soft.
const softenedMax = 1_000_000

// ClientKeys returns the parts whose values name clients: of the rules with clients.
func (s *Set) ClientKeys() (parts []keys.Part) {
	for i := range s.rules {
		if s.rules[i].Clients {
			parts = append(parts, s.rules[i].Key...)
		}
	}
	return parts
}

// nameOf is the name of a client as people may see it.
func (s *Set) nameOf(client []byte) string {
	if slices.ContainsFunc(s.ClientKeys(), keys.Part.Secret) {
		return keys.Shown(client)
	}
	return string(client)
}

// clientLimits gives a rule the limits of the clients, softened when it is; rules
// that are as soft share them.
func (j *judge) clientLimits(c *compiled, clients *Clients, softened map[limit.Soft][]limit.Limit) {
	if !c.Clients {
		return
	}
	c.limits = clients.limits
	if c.Soft == (limit.Soft{}) {
		return
	}
	known, ok := softened[c.Soft]
	if c.limits = known; ok {
		return
	}
	if (len(softened)+1)*len(clients.limits) > softenedMax {
		j.Fault(c.path+".soft", "must be the same in more rules: different ones times the %d limits of the client file must be at most %d",
			len(clients.limits), softenedMax)
		return
	}
	c.limits = make([]limit.Limit, len(clients.limits))
	softened[c.Soft] = c.limits
	for i, hard := range clients.limits {
		var err error
		if c.limits[i], err = hard.WithSoft(c.Soft); err != nil {
			j.Fault(c.path+".soft", "must go with the limits of the client file too: %s with %+v", err, hard.Config())
		}
	}
}

// Len returns the number of rules, the built-in one for clients included, but not those
// that exempt.
func (s *Set) Len() int { return len(s.rules) }

// Rule returns a rule by its index: see [Hit.Index] and [Set.Exempting].
func (s *Set) Rule(i int) *Rule {
	if i >= len(s.rules) {
		return &s.exempting[i-len(s.rules)]
	}
	return &s.rules[i].Rule
}

// Limit returns the limit of a rule by its index, as it is for those who have
// none of their own; nil for the built-in rule for clients.
func (s *Set) Limit(i int) *limit.Limit {
	if c := &s.rules[i]; c.limited {
		return &c.limit
	}
	return nil
}

// MarshalJSON returns the rules as a document that [Read] reads: the file's
// rules, or its domain and descriptors, without comments.
func (s *Set) MarshalJSON() ([]byte, error) {
	if s.file != nil {
		return plainJSON(s.file)
	}
	rules := make([]*Rule, 0, len(s.order))
	limiting, exempting := 0, len(s.rules)
	for _, exempt := range s.order {
		at := &limiting
		if exempt {
			at = &exempting
		}
		rules = append(rules, s.Rule(*at))
		*at++
	}
	return plainJSON(struct {
		Rules []*Rule `json:"rules"`
	}{rules})
}

// plainJSON is json.Marshal without escapes for HTML, which take six bytes for one.
func plainJSON(v any) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}
