package rule

import (
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"weir/proxy/limit"
)

const (
	// rulesMax bounds the rules of a file.
	rulesMax = 10_000
	// keyPartsMax bounds the parts of a key.
	keyPartsMax = 8
	// listMax bounds the methods and fields of a match, and the classes of a rule.
	listMax = 64
	// idBytesMax bounds a rule's id: it is a label, a part of fields and of keys.
	idBytesMax = 100
	// delayMax bounds how long a request may be held, in seconds.
	delayMax = 24 * 3600
)

// rules reads the list under rules.
func (j *judge) rules(root object) []compiled {
	n, path := root.at("rules")
	if n == nil {
		j.fault(root.line, path, "is missing; must be a list, [] for no rules")
		return nil
	}
	list := j.list(n, path)
	if len(list) > rulesMax {
		j.fault(n.line, path, "must be at most %d rules, is %d", rulesMax, len(list))
		return nil
	}
	rules := make([]compiled, len(list))
	seen := make(map[string]int, len(list))
	for i := range list {
		rules[i] = j.rule(&list[i], element(path, i))
		id := rules[i].ID
		if first, twice := seen[id]; twice && id != "" {
			j.fault(rules[i].line, rules[i].path+".id", "must be unique, %q is that of %s too", id, rules[first].path)
		}
		seen[id] = i
	}
	return rules
}

// rule reads one rule.
func (j *judge) rule(n *node, path string) compiled {
	o := j.object(n, path, "id", "exempt", "match", "key", "limit", "clients", "cost", "mode", "soft", "priority", "maxDelay", "missing", "refusal")
	c := compiled{line: n.line, path: path, limited: true}
	c.ID = o.id()
	if c.Exempt = o.flag("exempt"); c.Exempt {
		j.exempt(o, &c)
		return c
	}
	c.Clients = o.flag("clients")
	if o.oneOf("mode", "enforce", "shadow") == "shadow" {
		c.Mode = Shadow
	}
	c.Key = o.key(c.Clients)
	if limits, at := o.at("limit"); limits != nil {
		c.Rule.Limit, c.limit = j.limit(j.object(limits, at, limitFields...))
	} else {
		j.fault(n.line, at, "is missing; must be a limit such as {algorithm: fixed, limit: 100, window: 60}")
	}
	j.match(o, &c)
	c.Cost = o.costs()
	j.soft(o, &c)
	j.priorities(o, &c)
	j.maxDelay(o, &c)
	j.missing(o, &c)
	c.Refusal = o.refusal()
	return c
}

// maxDelay reads how long leaky may hold a request. 0 would mean for ever; who wants
// that leaves it out.
func (j *judge) maxDelay(o object, c *compiled) {
	seconds := o.number("maxDelay", 0, delayMax, -1)
	c.MaxDelay = max(0, seconds)
	c.delay = time.Duration(math.Round(c.MaxDelay*1e6)) * time.Microsecond
	n, at := o.at("maxDelay")
	switch {
	case n == nil:
	case seconds >= 0 && c.delay == 0:
		j.fault(n.line, at, "must be at least 0.000001 seconds, is %s; without it a request may wait as long as the queue is", n.word)
	case !c.Clients && c.limit.Algorithm() != 0 && c.limit.Algorithm() != limit.Leaky:
		j.fault(n.line, at, "must be there with algorithm leaky only, which makes requests wait")
	}
}

// id reads a rule's id.
func (o object) id() string {
	n, path := o.at("id")
	id := o.text("id")
	switch {
	case n == nil:
		o.j.fault(o.line, path, "is missing; must be a name that stays")
	case id == Global || id == ClientsRule || id == ExemptRule || id == PreflightRule || id == Candidate:
		o.j.fault(n.line, path, "must not be %q, which is a built-in rule", id)
	case len(id) > idBytesMax || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`"\{}`, r) }):
		o.j.fault(n.line, path, "must be at most %d visible ASCII characters without quotes, backslashes and braces, is %v", idBytesMax, n)
	}
	return id
}

// key reads the parts of a key; global when there are none.
func (o object) key(clients bool) []Part {
	global := []Part{{source: sourceGlobal}}
	n, path := o.at("key")
	if n == nil {
		if clients {
			o.j.fault(o.line, path, "is missing; clients: true needs one part that tells clients apart")
		}
		return global
	}
	var parts []Part
	list := o.j.list(n, path)
	if n.kind == kindList && (len(list) == 0 || len(list) > keyPartsMax) {
		o.j.fault(n.line, path, "must have 1 to %d parts, has %d", keyPartsMax, len(list))
		return global
	}
	for i := range list {
		part, ok := o.j.part(&list[i], element(path, i))
		if ok && slices.ContainsFunc(parts, func(p Part) bool { return p.canonical() == part.canonical() }) {
			o.j.fault(list[i].line, element(path, i), "given twice")
		}
		parts = append(parts, part)
	}
	alone := slices.Contains(parts, global[0])
	switch {
	case n.kind != kindList:
	case alone && len(parts) > 1:
		o.j.fault(n.line, path, "must not join global, the same for all, with other parts")
	case clients && (alone || len(parts) > 1):
		o.j.fault(n.line, path, "must be one part that tells clients apart when clients is true")
	}
	return parts
}

// part reads one part.
func (j *judge) part(n *node, path string) (Part, bool) {
	if n.kind != kindText {
		j.fault(n.line, path, "must be one of %s, is %v", partWords, n)
		return Part{}, false
	}
	part, err := ParsePart(n.word)
	if err != nil {
		j.fault(n.line, path, "%s", err)
	}
	return part, err == nil
}

// match reads the match of a rule.
func (j *judge) match(o object, c *compiled) {
	n, path := o.at("match")
	if n == nil {
		return
	}
	m := j.object(n, path, "methods", "path", "host", "headers", "addresses")
	c.Match.Methods = m.methods()
	var err error
	if c.Match.Path = m.text("path"); c.Match.Path != "" {
		if c.pathOf, err = parsePath(c.Match.Path); err != nil {
			j.fault(m.member("path").line, m.path+".path", "%s", err)
		}
	}
	if c.Match.Host = m.text("host"); c.Match.Host != "" {
		if c.hostOf, err = parseHost(c.Match.Host); err != nil {
			j.fault(m.member("host").line, m.path+".host", "%s", err)
		}
	}
	c.Match.Addresses = m.addresses()
	m.headers(c)
}

// addresses reads a list of networks.
func (o object) addresses() (list []netip.Prefix) {
	n, path := o.at("addresses")
	if n == nil || !o.j.atMost(n, path, listMax) {
		return nil
	}
	nodes := o.j.list(n, path)
	if n.kind == kindList && len(nodes) == 0 {
		o.j.fault(n.line, path, "must not be empty: without addresses a rule matches all")
	}
	for i := range nodes {
		network, err := parseNetwork(nodes[i].word)
		if nodes[i].kind != kindText {
			o.j.wrong(&nodes[i], element(path, i), kindText)
		} else if err != nil {
			o.j.fault(nodes[i].line, element(path, i), "%s", err)
		}
		list = append(list, network)
	}
	return list
}

// methods reads a list of methods.
func (o object) methods() []string {
	n, path := o.at("methods")
	if n == nil {
		return nil
	}
	var methods []string
	list := o.j.list(n, path)
	if n.kind == kindList && len(list) == 0 {
		o.j.fault(n.line, path, "must not be empty: without methods a rule matches all")
	}
	if !o.j.atMost(n, path, listMax) {
		return nil
	}
	for i := range list {
		at := element(path, i)
		switch word := list[i].word; {
		case list[i].kind != kindText:
			o.j.wrong(&list[i], at, kindText)
		case slices.Contains(methods, word):
			o.j.fault(list[i].line, at, "given twice")
		default:
			o.j.method(word, list[i].line, at)
			methods = append(methods, word)
		}
	}
	return methods
}

// method checks a method's name. Methods are case-sensitive (RFC 9110 section
// 9.1), and get would never match.
func (j *judge) method(word string, line int, path string) {
	if !isToken(word) || word != strings.ToUpper(word) {
		j.fault(line, path, "must be a method in upper case, such as GET, is %q", word)
	}
}

// headers reads the fields that a match demands.
func (o object) headers(c *compiled) {
	n, path := o.at("headers")
	if n == nil {
		return
	}
	if !o.j.atMost(n, path, listMax) {
		return
	}
	fields := o.j.object(n, path)
	c.Match.Headers = make(map[string]string, len(fields.names))
	for i, field := range fields.names {
		at := join(path, field.word)
		part := Part{source: sourceHeader, name: field.word}
		if !isToken(field.word) {
			o.j.fault(field.line, at, "must be the name of a field, is %q", field.word)
		}
		if slices.ContainsFunc(c.conditions, func(d condition) bool { return d.part.canonical() == part.canonical() }) {
			o.j.fault(field.line, at, "given twice, as names of fields have no case")
		}
		text := o.j.scalar(&fields.kids[i], at)
		c.Match.Headers[field.word] = text
		c.conditions = append(c.conditions, condition{part: part, word: text})
	}
}

// costs reads the cost of a rule.
func (o object) costs() Cost {
	n, path := o.at("cost")
	if n == nil {
		return Cost{}
	}
	if n.kind != kindObject {
		return Cost{Default: o.j.whole(n, path, 1, costMax)}
	}
	in := o.j.object(n, path, "header", "methods", "default", "max")
	c := Cost{Header: in.text("header"), Default: 1}
	if usual, at := in.at("default"); usual != nil {
		c.Default = o.j.whole(usual, at, 1, costMax)
	}
	if most, at := in.at("max"); most != nil {
		c.Max = o.j.whole(most, at, max(1, c.Default), costMax)
		if c.Header == "" {
			o.j.fault(most.line, at, "must be there with header only")
		}
	}
	methods, at := in.at("methods")
	if (methods == nil) == (in.member("header") == nil) {
		o.j.fault(n.line, path, "must be a number, or have one of header and methods")
	}
	if c.Header != "" && !isToken(c.Header) {
		o.j.fault(in.member("header").line, path+".header", "must be the name of a field, is %q", c.Header)
	}
	if methods == nil {
		return c
	}
	c.Methods = make(map[string]int64)
	by := o.j.object(methods, at)
	if methods.kind == kindObject && len(methods.names) == 0 {
		o.j.fault(methods.line, at, "must not be empty")
	}
	for i, method := range by.names {
		o.j.method(method.word, method.line, join(at, method.word))
		c.Methods[method.word] = o.j.whole(&by.kids[i], join(at, method.word), 1, costMax)
	}
	return c
}

// soft reads how far a limit may be exceeded. Its meaning and bounds are package
// limit's.
func (j *judge) soft(o object, c *compiled) {
	n, path := o.at("soft")
	if n == nil {
		return
	}
	in := j.object(n, path, "overshoot", "for")
	c.Soft = limit.Soft{Overshoot: in.number("overshoot", 0, 1e9, 1), For: in.number("for", 0, 1e9, 1)}
	complete := true
	for _, name := range []string{"overshoot", "for"} {
		if m, at := in.at(name); m == nil {
			j.fault(n.line, at, "is missing; must be greater than 0")
			complete = false
		}
	}
	if complete && c.limit.Algorithm() != 0 {
		soft, err := c.limit.WithSoft(c.Soft)
		j.limitFaults(in, err)
		c.limit = soft
	}
}

// priorities reads the classes of a rule.
func (j *judge) priorities(o object, c *compiled) {
	n, path := o.at("priority")
	if n == nil {
		return
	}
	if n.kind == kindText {
		j.fault(n.line, path, "must be an object such as {header: X-Priority, classes: {high: 0, low: 0.3}, default: low}, of which requests name a class; is %v", n)
		return
	}
	faults := len(j.faults)
	in := j.object(n, path, "header", "classes", "default")
	p := Priority{Header: in.text("header"), Default: in.text("default"), Classes: map[string]float64{}}
	if p.Header != "" && !isToken(p.Header) {
		j.fault(in.member("header").line, path+".header", "must be the name of a field, is %q", p.Header)
	}
	c.Priority, c.shares = p, make(map[string]int64)
	classes, at := in.at("classes")
	if classes == nil {
		j.fault(n.line, at, "is missing; must say for each class which share of the limit is kept back from it")
		return
	}
	if !j.atMost(classes, at, listMax) {
		return
	}
	by := j.object(classes, at)
	for i, class := range by.names {
		share := by.number(class.word, 0, 0.999, 0)
		c.shares[class.word] = int64(math.Round(share * 1000))
		p.Classes[class.word] = float64(c.shares[class.word]) / 1000
		if p.Classes[class.word] != share {
			j.fault(by.kids[i].line, join(at, class.word), "must have at most 3 decimals, is %s", by.kids[i].word)
		}
	}
	var known bool
	c.usual, known = c.shares[p.Default]
	switch given, at := in.at("default"); {
	case given == nil:
		j.fault(n.line, at, "is missing; must be one of the classes")
	case !known && p.Default != "":
		j.fault(given.line, at, "must be one of the classes, is %q", p.Default)
	}
	keeps := slices.ContainsFunc(slices.Collect(maps.Values(p.Classes)), func(share float64) bool { return share > 0 })
	if l := &c.limit; len(j.faults) == faults && keeps && !c.Clients && l.Algorithm() != 0 && l.Burst() == 1 {
		j.fault(n.line, path, "does nothing here: of a limit of one permit at once nothing can be kept back (with gcra, burst says how many)")
	}
}
