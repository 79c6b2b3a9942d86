package rule

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"weir/proxy/limit"
)

// A descriptorFile is a file of envoyproxy/ratelimit.
type descriptorFile struct {
	Domain      string       `json:"domain"`
	Descriptors []descriptor `json:"descriptors"`
}

type descriptor struct {
	Key         string       `json:"key"`
	Value       string       `json:"value,omitempty"`
	RateLimit   *rateLimit   `json:"rate_limit,omitempty"`
	ShadowMode  bool         `json:"shadow_mode,omitempty"`
	Descriptors []descriptor `json:"descriptors,omitempty"`

	line int
	path string
	part Part
}

type rateLimit struct {
	Unit            string `json:"unit,omitempty"`
	RequestsPerUnit *int64 `json:"requests_per_unit,omitempty"`
	Unlimited       bool   `json:"unlimited,omitempty"`
}

// Fields of real files that mean nothing here are passed over: they name and
// shape metrics only. Those that would change what is limited are refused.
var (
	descriptorFields = []string{
		"key", "value", "Value", "rate_limit", "descriptors", "shadow_mode", "unlimited",
		"detailed_metric", "value_to_metric", "metadata", // passed over
		"quota_mode", "share_threshold", // refused
	}
	rateLimitFields = []string{"unit", "requests_per_unit", "unlimited", "name" /* passed over */, "replaces" /* refused */}
	units           = []string{"second", "minute", "hour", "day", "week", "month", "year"}
	unitLengths     = []time.Duration{time.Second, time.Minute, time.Hour, day, 7 * day, 30 * day, 365 * day}
)

// All windows begin at multiples of their length since 1970, as those of
// envoyproxy/ratelimit do: months and years are not those of the calendar.
const day = 24 * time.Hour

// An envoy reads a descriptor file and makes rules of it.
//
// envoyproxy/ratelimit walks down its tree with the entries of a descriptor; in
// each list it looks for key and value, and for the bare key only when there is
// no such value. A rule here is one entry with a limit. It demands of a request
// what the walk to that entry takes: of each entry on the way with a value, that
// value; of each bare one, none of the values that its list has for the key. So
// of the entries of one key in one list at most one applies. Its key is made of
// the bare entries on the way.
//
// Entries of different keys in one list are different descriptors: both may
// apply. A request that lacks what an entry names does not reach it: Envoy sends
// no descriptor then.
//
// Owned by one call of Read.
type envoy struct {
	*judge
	keys  DescriptorKeys
	rules []compiled
}

// A trail is the way down to a list of descriptors.
type trail struct {
	id         string
	conditions []condition
	key        []Part
}

// descriptors reads a whole file.
func (j *judge) descriptors(root *node, keys DescriptorKeys) (descriptorFile, []compiled) {
	e := envoy{judge: j, keys: keys}
	o := j.object(root, "", "domain", "descriptors")
	file := descriptorFile{Domain: o.text("domain"), Descriptors: []descriptor{}}
	if n, path := o.at("domain"); n == nil {
		j.fault(root.line, path, "is missing; must be the name of the domain")
	}
	if n, path := o.at("descriptors"); n != nil {
		file.Descriptors = e.list(n, path, trail{id: idWord(file.Domain)})
	}
	if len(e.rules) > rulesMax {
		j.fault(root.line, "descriptors", "must be at most %d limits, is %d", rulesMax, len(e.rules))
	}
	return file, e.rules
}

// list reads one list of descriptors, which are below the trail.
func (e *envoy) list(n *node, path string, above trail) []descriptor {
	nodes := e.judge.list(n, path)
	entries := make([]descriptor, len(nodes))
	objects := make([]object, len(nodes))
	values := make(map[string]*listed) // by key
	seen := make(map[[2]string]bool)   // key and value
	for i := range nodes {
		at := element(path, i)
		objects[i] = e.object(&nodes[i], at, descriptorFields...)
		entries[i] = e.entry(objects[i])
		d := &entries[i]
		if seen[[2]string{d.Key, d.Value}] {
			e.fault(d.line, at, "given twice: the same key and value in one list")
		}
		seen[[2]string{d.Key, d.Value}] = true
		if values[d.Key] == nil {
			values[d.Key] = &listed{make(map[string]bool)}
		}
		if d.Value != "" {
			values[d.Key].values[d.Value] = true
		}
	}
	for i := range entries {
		d := &entries[i]
		below := above.down(d, values[d.Key])
		e.limited(d, below)
		if nested, at := objects[i].at("descriptors"); nested != nil {
			d.Descriptors = e.list(nested, at, below)
		}
	}
	return entries
}

// down returns the trail below d; values are those of its key in its list.
func (t trail) down(d *descriptor, values *listed) trail {
	c := condition{part: d.part, word: d.Value}
	below := trail{id: t.id + "/" + idWord(d.Key), key: slices.Clip(t.key)}
	if d.Value == "" {
		c.none = values
		if !slices.Contains(t.key, d.part) {
			below.key = append(below.key, d.part)
		}
	} else {
		below.id += "=" + idWord(d.part.shown(d.Value))
	}
	below.conditions = append(slices.Clip(t.conditions), c)
	return below
}

// limited adds the rule of an entry that has a limit.
func (e *envoy) limited(d *descriptor, t trail) {
	r := d.RateLimit
	if r == nil || r.Unlimited || r.RequestsPerUnit == nil || r.Unit == "" {
		return
	}
	c := compiled{line: d.line, path: d.path, limited: true, conditions: t.conditions}
	c.ID, c.Key = shortID(t.id), t.key
	switch {
	case len(c.Key) == 0:
		c.Key = []Part{{source: sourceGlobal}}
	case len(c.Key) > keyPartsMax:
		e.fault(d.line, d.path, "must have at most %d keys without value on the way down, has %d", keyPartsMax, len(c.Key))
	}
	if d.ShadowMode {
		c.Mode = Shadow
	}
	var err error
	c.limit, err = limit.NewFixed(*r.RequestsPerUnit, unitLengths[slices.Index(units, r.Unit)])
	if err != nil {
		e.fault(d.line, d.path+".rate_limit", "%s", err)
	}
	c.Rule.Limit = c.limit.Config()
	e.rules = append(e.rules, c)
}

// entry reads one descriptor without those nested in it.
func (e *envoy) entry(o object) descriptor {
	d := descriptor{line: o.line, path: o.path, Key: o.text("key"), ShadowMode: o.flag("shadow_mode")}
	n, path := o.at("key")
	if n == nil {
		e.fault(o.line, path, "is missing")
	} else if d.Key != "" {
		var err error
		if d.part, err = e.keys.part(d.Key); err != nil {
			e.fault(n.line, path, "%s", err)
		}
	}
	spelled := "value"
	if o.member("Value") != nil {
		spelled = "Value"
	}
	if v, at := o.at(spelled); v != nil {
		d.Value = e.scalar(v, at)
		if spelled == "Value" && o.member("value") != nil {
			e.fault(v.line, at, "given twice, as value too")
		}
		if d.Value != "" && d.part != (Part{}) {
			var err error
			if d.Value, err = d.part.value(d.Key, d.Value); err != nil {
				e.fault(v.line, at, "%s", err)
			}
		}
	}
	for _, name := range []string{"quota_mode", "share_threshold"} {
		if o.flag(name) {
			n, at := o.at(name)
			e.fault(n.line, at, "must be false: it is not supported")
		}
	}
	d.RateLimit = e.rate(o)
	return d
}

// rate reads the limit of a descriptor; nil when it has none.
func (e *envoy) rate(o object) *rateLimit {
	r := &rateLimit{Unlimited: o.flag("unlimited")}
	n, path := o.at("rate_limit")
	if n == nil && !r.Unlimited {
		return nil
	}
	if n == nil {
		return r
	}
	in := e.object(n, path, rateLimitFields...)
	r.Unlimited = in.flag("unlimited") || r.Unlimited
	if replaces, at := in.at("replaces"); replaces != nil {
		e.fault(replaces.line, at, "must not be there: it is not supported, all limits that match apply")
	}
	unit, unitPath := in.at("unit")
	requests, requestsPath := in.at("requests_per_unit")
	if r.Unlimited {
		if unit != nil || requests != nil {
			e.fault(n.line, path, "must not have unit and requests_per_unit when it is unlimited")
		}
		return r
	}
	switch {
	case unit == nil:
		e.fault(n.line, unitPath, "is missing; must be one of %s", strings.Join(units, ", "))
	case unit.kind != kindText || !slices.Contains(units, strings.ToLower(unit.word)):
		e.fault(unit.line, unitPath, "must be one of %s, is %v", strings.Join(units, ", "), unit)
	default:
		r.Unit = strings.ToLower(unit.word)
	}
	if requests == nil {
		e.fault(n.line, requestsPath, "is missing; must be a whole number, 0 refuses all")
		return r
	}
	count := e.whole(requests, requestsPath, 0, 1<<32-1)
	r.RequestsPerUnit = &count
	return r
}

// idWord writes a word as a part of an id: what has a meaning there, or may not
// stand there, is escaped.
func idWord(word string) string {
	var b strings.Builder
	for i := range len(word) {
		if c := word[i]; segmentBytes[c] && c != '=' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// shortID returns id, or of a long one its beginning and a digest.
func shortID(id string) string {
	if len(id) <= idBytesMax {
		return id
	}
	sum := fnv.New64a()
	sum.Write([]byte(id))
	digest := fmt.Sprintf("~%016x", sum.Sum64())
	return id[:idBytesMax-len(digest)] + digest
}
