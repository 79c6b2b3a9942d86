package rule

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"weir/internal/data/strict"
	"weir/proxy/rules/descriptor"
	"weir/proxy/rules/keys"
	"weir/proxy/rules/pattern"
)

// descriptors makes rules from a descriptor file.
//
// envoyproxy/ratelimit walks down its tree with the entries of a descriptor. In each list
// it looks for key and value, and only if there is no such value for the bare key. Here a
// rule is one entry with a limit. It matches the requests that the walk leads to that
// entry: for each entry on the way with a value, the request must have that value; for
// each bare one, it must have none of the values that the list has for the key. So of the
// entries of one key in one list at most one applies. The rule's key is made of the bare
// entries on the way.
//
// Entries of different keys in one list are different descriptors: both may apply. A
// request that lacks the part that an entry names does not reach it, because Envoy sends
// no descriptor in that case.
func (j *judge) descriptors() (*descriptor.Document, []compiled) {
	file := descriptor.Decode(j.Reader)
	rules := j.list(nil, file.Descriptors, trail{id: idWord(file.Domain)})
	j.Check(len(rules) > rulesMax, "descriptors", "must be at most %d limits, is %d", rulesMax, len(rules))
	return file, rules
}

// A trail is the way down to a list of descriptors.
type trail struct {
	id         string
	conditions []condition
	key        []keys.Part
}

// list appends the rules of one list of entries, which are below the trail.
func (j *judge) list(rules []compiled, entries []descriptor.Entry, above trail) []compiled {
	values := make(map[string]*pattern.ValueSet) // by key
	seen := make(map[[2]string]bool)             // key and value
	parts := make([]keys.Part, len(entries))
	for i := range entries {
		d := &entries[i]
		if d.Path == "" {
			continue
		}
		parts[i] = j.entry(d)
		j.Check(seen[[2]string{d.Key, string(d.Value)}], d.Path, descriptor.DuplicateEntry)
		seen[[2]string{d.Key, string(d.Value)}] = true
		if values[d.Key] == nil {
			values[d.Key] = &pattern.ValueSet{Values: make(map[string]bool)}
		}
		if d.Value != "" {
			values[d.Key].Values[string(d.Value)] = true
		}
	}
	for i := range entries {
		d := &entries[i]
		below := above.down(d, parts[i], values[d.Key])
		rules = j.list(j.limited(rules, d, below), d.Descriptors, below)
	}
	return rules
}

// down returns the trail below d, whose key is part. values are those of its key in its
// list.
func (t trail) down(d *descriptor.Entry, part keys.Part, values *pattern.ValueSet) trail {
	c := condition{part: part, PartCondition: pattern.PartCondition{Word: string(d.Value)}}
	below := trail{id: t.id + "/" + idWord(d.Key), key: slices.Clip(t.key)}
	if d.Value == "" {
		c.None = values
		if !slices.Contains(t.key, part) {
			below.key = append(below.key, part)
		}
	} else {
		below.id += "=" + idWord(shownOf(part, string(d.Value)))
	}
	below.conditions = append(slices.Clip(t.conditions), c)
	return below
}

// limited appends the rule of an entry with a limit.
func (j *judge) limited(rules []compiled, d *descriptor.Entry, t trail) []compiled {
	if d.Limit == nil || d.Limit.Unlimited {
		return rules
	}
	c := compiled{path: d.Path, limit: d.Limit.Limit, conditions: t.conditions}
	c.ID, c.Key = shortID(t.id), t.key
	switch {
	case len(c.Key) == 0:
		c.Key = []keys.Part{{Source: keys.Global}}
	case len(c.Key) > keyPartsMax:
		j.Fault(d.Path, "must have at most %d keys without value on the way down, has %d", keyPartsMax, len(c.Key))
	}
	if d.Limit.Shadow {
		c.Mode = Shadow
	}
	c.Rule.Limit = c.limit.Config()
	return append(rules, c)
}

// entry reports the fields of an entry that mean something different here than in Envoy's
// rate limit service, and returns the part that its key stands for. Fields that only name
// and shape metrics are ignored; those that would change what is limited are faults.
func (j *judge) entry(d *descriptor.Entry) (part keys.Part) {
	var err error
	j.Check(strings.Contains(d.Key, "*"), d.Path+".key", "must be one key without *, is %q", d.Key)
	if d.Key != "" {
		part, err = j.o.DescriptorKeys.part(d.Key)
		j.AddFaults(d.Path+".key", err)
	}
	if d.Value != "" && part != (keys.Part{}) {
		value, err := valueOf(part, d.Key, string(d.Value))
		d.Value = strict.Scalar(value)
		j.AddFaults(d.Path+".value", err)
	}
	j.Check(d.QuotaMode, d.Path+".quota_mode", "must be false: true is not supported")
	j.Check(d.Limit != nil && len(d.Limit.Replaces) > 0, d.Path+".rate_limit.replaces",
		"is not supported: all limits that match apply")
	d.DetailedMetric, d.ValueToMetric, d.Metadata = false, false, nil
	return part
}

// idWord escapes a word for use in an id.
func idWord(word string) string {
	var b strings.Builder
	for i := range len(word) {
		if c := word[i]; pattern.IsSegmentByte(c) && c != '=' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// shortID returns id, or if it is long its beginning and a digest.
func shortID(id string) string {
	if len(id) <= idBytesMax {
		return id
	}
	sum := fnv.New64a()
	sum.Write([]byte(id))
	digest := fmt.Sprintf("~%016x", sum.Sum64())
	return id[:idBytesMax-len(digest)] + digest
}
