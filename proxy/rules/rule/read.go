package rule

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"weir/internal/data/strict"
	"weir/proxy/limit"
	"weir/proxy/rules/keys"
	"weir/proxy/rules/pattern"
)

const (
	fileBytesMax = 8 << 20
	rulesMax     = 10_000 // of a file
	keyPartsMax  = 8
	listMax      = 64        // methods and fields of a match, classes of a rule
	idBytesMax   = 100       // of a rule's id, which appears in labels, fields and keys
	delayMax     = 24 * 3600 // seconds that a request may be held
)

// A judge reads a file and collects its faults.
//
// Owned by one call of a reading function.
type judge struct {
	*strict.Reader
	o Options
}

// rules reads the list under rules.
func (j *judge) rules() []compiled {
	list := j.Root.Member("rules")
	switch {
	case list == nil && j.Root.Kind != strict.Object: // Decode reports it
	case list == nil:
		j.Fault("rules", "is missing; must be a list, [] for no rules")
	case len(list.Children) > rulesMax:
		j.Fault("rules", "must be at most %d rules, is %d", rulesMax, len(list.Children))
		return nil
	}
	var file struct {
		Rules []Rule `json:"rules"`
	}
	j.Decode(j.Root, "", &file)
	rules := make([]compiled, len(file.Rules))
	seen := make(map[string]string, len(rules))
	for i := range rules {
		c := compiled{Rule: file.Rules[i], path: strict.ElementPath("rules", i)}
		if n := &list.Children[i]; n.Kind == strict.Object {
			j.rule(n, &c)
		}
		if first, twice := seen[c.ID]; twice && c.ID != "" {
			j.Fault(c.path+".id", "must be unique, %q is also that of %s", c.ID, first)
		}
		seen[c.ID], rules[i] = c.path, c
	}
	return rules
}

func given(n *strict.Node, name string) bool { return n.Member(name) != nil }

// rule checks a rule decoded from n, and completes it.
func (j *judge) rule(n *strict.Node, c *compiled) {
	j.id(n, c)
	if c.Exempt {
		j.exempt(n, c)
		return
	}
	j.key(n, c)
	if n := n.Member("limit"); n == nil {
		j.Fault(c.path+".limit", "is missing; must be a limit such as {algorithm: fixed, limit: 100, window: 60}")
	} else {
		c.limit = j.limit(n, c.path+".limit", c.Rule.Limit)
	}
	j.match(n, c)
	if given(n, "missing") && len(c.Key) == 1 && c.Key[0].Source == keys.Global {
		j.Fault(c.path+".missing", "is allowed only with a key that requests may lack, such as [header:X-Partner]")
	}
	for _, part := range []struct {
		name  string
		judge func(*strict.Node, *compiled)
	}{{"soft", j.soft}, {"priority", j.priorities}, {"maxDelay", j.maxDelay}, {"refusal", j.refusal},
		{"defer", j.deferring}} {
		if in := n.Member(part.name); in != nil {
			part.judge(in, c)
		}
	}
}

func (j *judge) id(n *strict.Node, c *compiled) {
	j.Filled(n, c.path, "id")
	switch id, path := c.ID, c.path+".id"; {
	case !given(n, "id"):
		j.Fault(path, "is missing; must be a name that does not change")
	case id == GlobalID || id == ClientsRule || id == ExemptRule || id == PreflightRule || id == CandidateRule:
		j.Fault(path, "must not be %q, which is a built-in rule", id)
	case len(id) > idBytesMax ||
		strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`"\{}`, r) }):
		j.Fault(path, "must be at most %d visible ASCII characters without quotes, backslashes and braces, is %v",
			idBytesMax, n.Member("id"))
	}
}

// limit checks the limit decoded from n; its meaning and faults are those of package
// limit. Numbers of other algorithms are noted, because nothing switches the algorithm of
// a rule's or client's limit.
func (j *judge) limit(n *strict.Node, path string, c limit.Config) limit.Limit {
	l, err := limit.New(c)
	j.AddFaults(path, err)
	if err != nil {
		return l
	}
	for _, name := range limit.Fields() {
		if given(n, name) && !slices.Contains(c.Algorithm.Fields(), name) {
			j.Note(strict.MemberPath(path, name), "has no effect with algorithm %v, which uses %s",
				c.Algorithm, c.Algorithm.FieldsText())
		}
	}
	return l
}

// maxDelay checks how long leaky may hold a request. 0 is a fault: a rule without a bound
// leaves maxDelay out.
func (j *judge) maxDelay(n *strict.Node, c *compiled) {
	path := c.path + ".maxDelay"
	c.delay = time.Duration(math.Round(c.MaxDelay*1e6)) * time.Microsecond
	switch {
	case c.MaxDelay < 0 || c.MaxDelay > delayMax:
		j.Fault(path, "must be from 0 to %v, is %v", delayMax, n)
	case c.delay == 0:
		j.Fault(path, "must be at least 0.000001 seconds, is %v; without it a request may wait as long as the queue is", n)
	case !c.Clients && c.limit.Algorithm() != 0 && c.limit.Algorithm() != limit.Leaky:
		j.Fault(path, "is allowed only with algorithm leaky, which makes requests wait")
	}
}

// Why no request can be stored, and why no client can be called back.
const (
	noQueue = "DEFER_URL is not set, or TARGET_URL is none"
	noHosts = "DEFER_CALLBACK_HOSTS is not set"
)

// deferring checks whether refused requests can be stored. Package terms checks the rest.
func (j *judge) deferring(_ *strict.Node, c *compiled) {
	switch {
	case j.Unknown != nil && !j.o.Defers: // another proxy has a queue; the limits apply here too
		c.Defer = nil
		j.Note(c.path+".defer", "has no effect here: "+noQueue)
	case !j.o.Defers:
		j.Fault(c.path+".defer", noQueue)
	case c.Defer.Callback && !j.o.Callbacks && j.Unknown != nil:
		j.Note(c.path+".defer.callback", "has no effect here: "+noHosts)
	case c.Defer.Callback && !j.o.Callbacks:
		j.Fault(c.path+".defer.callback", noHosts)
	case c.Mode == Shadow:
		j.Note(c.path+".defer", "has no effect with mode shadow, which refuses nothing")
	}
}

// key checks the parts of a key. Without parts the key is global.
func (j *judge) key(n *strict.Node, c *compiled) {
	path := c.path + ".key"
	count := len(c.Key)
	alone := slices.ContainsFunc(c.Key, func(p keys.Part) bool { return p.Source == keys.Global })
	for i, part := range c.Key[:min(count, keyPartsMax)] {
		if slices.ContainsFunc(c.Key[:i], func(p keys.Part) bool { return p.Canonical() == part.Canonical() }) {
			j.Fault(strict.ElementPath(path, i), "given twice")
		}
	}
	switch {
	case !given(n, "key") && c.Clients:
		j.Fault(path, "is missing; clients: true needs one part that tells clients apart")
	case !given(n, "key"):
	case count == 0 || count > keyPartsMax:
		j.Fault(path, "must have from 1 to %d parts, has %d", keyPartsMax, count)
		c.Key = nil
	case alone && count > 1:
		j.Fault(path, "must not combine global, which is the same for all requests, with other parts")
	case c.Clients && (alone || count > 1):
		j.Fault(path, "must be one part that tells clients apart when clients is true")
	}
	if len(c.Key) == 0 {
		c.Key = []keys.Part{{Source: keys.Global}}
	}
}

func (j *judge) match(of *strict.Node, c *compiled) {
	n, path, m := of.Member("match"), c.path+".match", &c.Match
	if n == nil {
		return
	}
	j.Filled(n, path, "path", "host")
	var err error
	if m.Path != "" {
		c.pathOf, err = pattern.Path(m.Path)
		j.AddFaults(path+".path", err)
	}
	if m.Host != "" {
		c.hostOf, err = pattern.Host(m.Host)
		j.AddFaults(path+".host", err)
	}
	for _, list := range []struct {
		name  string
		count int
	}{{"methods", len(m.Methods)}, {"addresses", len(m.Addresses)}} {
		j.Check(given(n, list.name) && list.count == 0, path+"."+list.name,
			"must not be empty; leave %s out to match all", list.name)
		j.atMost(path+"."+list.name, list.count)
	}
	for i, word := range m.Methods {
		at := strict.ElementPath(path+".methods", i)
		if j.method(word, at); slices.Contains(m.Methods[:i], word) {
			j.Fault(at, "given twice")
		}
	}
	if n := n.Member("headers"); n != nil && j.atMost(path+".headers", len(n.Children)) {
		j.headers(n, path+".headers", c)
	}
}

// atMost reports whether n is at most listMax, and adds a fault if not.
func (j *judge) atMost(path string, n int) bool {
	j.Check(n > listMax, path, "must be at most %d, is %d", listMax, n)
	return n <= listMax
}

// method checks the name of a method. Methods are case-sensitive (RFC 9110 section 9.1),
// so get would never match.
func (j *judge) method(word, path string) {
	j.Check(!keys.IsToken(word) || word != strings.ToUpper(word), path,
		"must be a method in upper case, such as GET, is %q", word)
}

// headers makes conditions from the fields of a match, in the order of the file.
func (j *judge) headers(n *strict.Node, path string, c *compiled) {
	for i := range n.Names {
		name := string(n.Names[i].Word)
		part := keys.Part{Source: keys.Header, Name: name}
		j.fieldName(strict.MemberPath(path, name), name)
		if slices.ContainsFunc(c.conditions, func(d condition) bool { return d.part.Canonical() == part.Canonical() }) {
			j.Fault(strict.MemberPath(path, name), "given twice, since field names are case-insensitive")
		}
		word, _ := part.Normal([]byte(c.Match.Headers[name])) // only addresses can be wrong
		c.conditions = append(c.conditions, condition{part: part, PartCondition: pattern.PartCondition{Word: string(word)}})
	}
}

func (j *judge) fieldName(path, name string) {
	j.Check(!keys.IsToken(name), path, "must be a field name, is %q", name)
}

// ReadNode reads a cost, which is a number or an object.
func (c *Cost) ReadNode(r *strict.Reader, n *strict.Node, path string) {
	j := judge{Reader: r}
	if n.Kind != strict.Object {
		if j.Decode(n, path, &c.Default) {
			j.Range(path, c.Default, 1, costMax)
		}
		return
	}
	text := costText{Default: 1}
	j.Decode(n, path, &text)
	*c = Cost(text)
	j.Filled(n, path, "header")
	j.Range(path+".default", c.Default, 1, costMax)
	if given(n, "max") {
		j.Range(path+".max", c.Max, max(1, c.Default), costMax)
		j.Check(c.Header == "", path+".max", "is allowed only with header")
	}
	j.Check(given(n, "methods") == given(n, "header"), path, "must be a number, or have one of header and methods")
	if c.Header != "" {
		j.fieldName(path+".header", c.Header)
	}
	j.Check(given(n, "methods") && len(c.Methods) == 0, path+".methods", "must not be empty")
	for _, method := range slices.Sorted(maps.Keys(c.Methods)) {
		at := strict.MemberPath(path+".methods", method)
		j.method(method, at)
		j.Range(at, c.Methods[method], 1, costMax)
	}
}

// soft checks a soft limit. Package limit defines its meaning and bounds.
func (j *judge) soft(n *strict.Node, c *compiled) {
	for _, name := range []string{"overshoot", "for"} {
		if !given(n, name) {
			j.Fault(c.path+".soft."+name, "is missing; must be greater than 0")
			return
		}
	}
	if c.limit.Algorithm() != 0 {
		var err error
		c.limit, err = c.limit.WithSoft(c.Soft)
		j.AddFaults(c.path+".soft", err)
	}
}

// ReadNode reads the classes of a rule.
func (p *Priority) ReadNode(r *strict.Reader, n *strict.Node, path string) {
	if n.Kind == strict.Text {
		r.Fault(path, "must be an object such as {header: X-Priority, classes: {high: 0, low: 0.3}, default: low}; is %v", n)
		return
	}
	type plain Priority
	r.Decode(n, path, (*plain)(p))
}

func (j *judge) priorities(n *strict.Node, c *compiled) {
	path, p := c.path+".priority", &c.Priority
	if n.Kind != strict.Object {
		return
	}
	faults := j.Count()
	j.Filled(n, path, "header", "default")
	if p.Header != "" {
		j.fieldName(path+".header", p.Header)
	}
	c.shares = make(map[string]int64)
	if !given(n, "classes") {
		j.Fault(path+".classes", "is missing; must say for each class which share of the limit is kept back from it")
		return
	}
	if !j.atMost(path+".classes", len(p.Classes)) {
		return
	}
	keeps := false
	for _, class := range slices.Sorted(maps.Keys(p.Classes)) {
		share, at := p.Classes[class], strict.MemberPath(path+".classes", class)
		c.shares[class] = int64(math.Round(share * 1000))
		p.Classes[class] = float64(c.shares[class]) / 1000
		keeps = keeps || share > 0
		switch {
		case share < 0 || share > 0.999:
			j.Fault(at, "must be from 0 to 0.999, is %v", share)
		case p.Classes[class] != share:
			j.Fault(at, "must have at most 3 decimals, is %v", share)
		}
	}
	var known bool
	c.usual, known = c.shares[p.Default]
	switch {
	case !given(n, "default"):
		j.Fault(path+".default", "is missing; must be one of the classes")
	case !known && p.Default != "":
		j.Fault(path+".default", "must be one of the classes, is %q", p.Default)
	}
	if l := &c.limit; j.Count() == faults && keeps && !c.Clients && l.Algorithm() != 0 && l.Burst() == 1 {
		j.Fault(path,
			"has no effect: nothing can be kept back from a limit of one permit at a time (with gcra, burst sets how many)")
	}
}
