package rule

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"weir/internal/strict"
	"weir/proxy/keys"
	"weir/proxy/limit"
	"weir/proxy/overlap"
	"weir/proxy/pattern"
	"weir/proxy/rls"
)

// A descriptorFile is a file of envoyproxy/ratelimit.
type descriptorFile struct {
	Domain      string       `json:"domain"`
	Descriptors []descriptor `json:"descriptors"`
}

type descriptor struct {
	Key         string       `json:"key"`
	Value       strict.Word  `json:"value,omitempty"`
	ValueToo    strict.Word  `json:"Value,omitempty"` // another spelling
	RateLimit   *rateLimit   `json:"rate_limit,omitempty"`
	Descriptors []descriptor `json:"descriptors,omitempty"`
	ShadowMode  bool         `json:"shadow_mode,omitempty"`
	Unlimited   bool         `json:"unlimited,omitempty"`
	besideKey

	path string
	part keys.Part
}

type rateLimit struct {
	Unit            unit   `json:"unit,omitempty"`
	RequestsPerUnit *int64 `json:"requests_per_unit,omitempty"`
	Unlimited       bool   `json:"unlimited,omitempty"`
	besideUnit
}

// Fields of real files that mean nothing here are passed over: they name and
// shape metrics only. Those that would change what is limited are refused.
type (
	besideKey struct {
		DetailedMetric any  `json:"detailed_metric,omitempty"`
		ValueToMetric  any  `json:"value_to_metric,omitempty"`
		Metadata       any  `json:"metadata,omitempty"`
		QuotaMode      bool `json:"quota_mode,omitempty"`      // refused
		ShareThreshold bool `json:"share_threshold,omitempty"` // refused
	}
	besideUnit struct {
		Name     any          `json:"name,omitempty"`
		Replaces *strict.Node `json:"replaces,omitempty"` // refused
	}
)

// A unit is the name of a [rls.Unit], as people write it.
type unit string

// UnmarshalText reads a unit, in any case.
func (u *unit) UnmarshalText(text []byte) error {
	var known rls.Unit
	err := known.UnmarshalText(text)
	if err == nil {
		*u = unit(strings.ToLower(string(text)))
	}
	return err
}

// window is the length of the unit.
func (u unit) window() time.Duration {
	var known rls.Unit
	_ = known.UnmarshalText([]byte(u)) // was read so
	return known.Window()
}

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
	key        []keys.Part
}

// descriptors reads a whole file.
func (j *judge) descriptors(keys DescriptorKeys) (*descriptorFile, []compiled) {
	e := envoy{judge: j, keys: keys}
	file := &descriptorFile{Descriptors: []descriptor{}}
	j.Decode(j.Root, "", file)
	j.Filled(j.Root, "", "domain")
	if !given(j.Root, "domain") {
		j.Fault("domain", "is missing; must be the name of the domain")
	}
	if n := j.Root.Member("descriptors"); n != nil {
		e.list(n, "descriptors", file.Descriptors, trail{id: idWord(file.Domain)})
	}
	if len(e.rules) > rulesMax {
		j.Fault("descriptors", "must be at most %d limits, is %d", rulesMax, len(e.rules))
	}
	return file, e.rules
}

// list judges one list of descriptors, which are below the trail.
func (e *envoy) list(n *strict.Node, path string, entries []descriptor, above trail) {
	values := make(map[string]*overlap.Words) // by key
	seen := make(map[[2]string]bool)          // key and value
	for i := range entries {
		d := &entries[i]
		d.path = strict.Element(path, i)
		if n.Kids[i].Kind != strict.Object {
			continue
		}
		e.entry(&n.Kids[i], d)
		if seen[[2]string{d.Key, string(d.Value)}] {
			e.Fault(d.path, "given twice: the same key and value in one list")
		}
		seen[[2]string{d.Key, string(d.Value)}] = true
		if values[d.Key] == nil {
			values[d.Key] = &overlap.Words{Values: make(map[string]bool)}
		}
		if d.Value != "" {
			values[d.Key].Values[string(d.Value)] = true
		}
	}
	for i := range entries {
		d := &entries[i]
		below := above.down(d, values[d.Key])
		e.limited(d, below)
		if nested := n.Kids[i].Member("descriptors"); nested != nil {
			e.list(nested, d.path+".descriptors", d.Descriptors, below)
		}
	}
}

// down returns the trail below d; values are those of its key in its list.
func (t trail) down(d *descriptor, values *overlap.Words) trail {
	c := condition{part: d.part, Condition: overlap.Condition{Word: string(d.Value)}}
	below := trail{id: t.id + "/" + idWord(d.Key), key: slices.Clip(t.key)}
	if d.Value == "" {
		c.None = values
		if !slices.Contains(t.key, d.part) {
			below.key = append(below.key, d.part)
		}
	} else {
		below.id += "=" + idWord(shownOf(d.part, string(d.Value)))
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
	c := compiled{path: d.path, limited: true, conditions: t.conditions}
	c.ID, c.Key = shortID(t.id), t.key
	switch {
	case len(c.Key) == 0:
		c.Key = []keys.Part{{Source: keys.Global}}
	case len(c.Key) > keyPartsMax:
		e.Fault(d.path, "must have at most %d keys without value on the way down, has %d", keyPartsMax, len(c.Key))
	}
	if d.ShadowMode {
		c.Mode = Shadow
	}
	var err error
	c.limit, err = limit.NewFixed(*r.RequestsPerUnit, r.Unit.window())
	if err != nil {
		e.Fault(d.path+".rate_limit", "%v", err)
	}
	c.Rule.Limit = c.limit.Config()
	e.rules = append(e.rules, c)
}

// entry judges one descriptor without those nested in it, and leaves of it what means
// something here.
func (e *envoy) entry(n *strict.Node, d *descriptor) {
	e.Filled(n, d.path, "key")
	var err error
	if !given(n, "key") {
		e.Fault(d.path+".key", "is missing")
	} else if d.Key != "" {
		d.part, err = e.keys.part(d.Key)
		e.Under(d.path+".key", err)
	}
	spelled := "value"
	if given(n, "Value") {
		spelled = "Value"
		if given(n, "value") {
			e.Fault(d.path+".Value", "given twice, as value too")
		}
		d.Value, d.ValueToo = d.ValueToo, ""
	}
	if d.Value != "" && d.part != (keys.Part{}) {
		value, err := valueOf(d.part, d.Key, string(d.Value))
		d.Value = strict.Word(value)
		e.Under(d.path+"."+spelled, err)
	}
	if d.QuotaMode {
		e.Fault(d.path+".quota_mode", "must be false: it is not supported")
	}
	if d.ShareThreshold {
		e.Fault(d.path+".share_threshold", "must be false: it is not supported")
	}
	d.besideKey = besideKey{}
	if in := n.Member("rate_limit"); in != nil && d.RateLimit != nil {
		e.rate(in, d.path+".rate_limit", d.RateLimit)
	} else if d.Unlimited {
		d.RateLimit = &rateLimit{}
	}
	if d.Unlimited {
		d.RateLimit.Unlimited, d.Unlimited = true, false
	}
}

// rate judges the limit of a descriptor.
func (e *envoy) rate(n *strict.Node, path string, r *rateLimit) {
	if r.Replaces != nil {
		e.Fault(path+".replaces", "must not be there: it is not supported, all limits that match apply")
	}
	r.besideUnit = besideUnit{}
	switch {
	case r.Unlimited:
		if given(n, "unit") || given(n, "requests_per_unit") {
			e.Fault(path, "must not have unit and requests_per_unit when it is unlimited")
		}
		return
	case !given(n, "unit"):
		e.Fault(path+".unit", "is missing; must be one of %s", rls.UnitNames)
	}
	if r.RequestsPerUnit == nil {
		e.Fault(path+".requests_per_unit", "is missing; must be a whole number, 0 refuses all")
	} else {
		e.Range(path+".requests_per_unit", *r.RequestsPerUnit, 0, 1<<32-1)
	}
}

// idWord writes a word as a part of an id: what has a meaning there, or may not
// stand there, is escaped.
func idWord(word string) string {
	var b strings.Builder
	for i := range len(word) {
		if c := word[i]; pattern.InSegment(c) && c != '=' {
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
