package rule

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"weir/proxy/limit"
)

// limitFields are the fields of a limit configuration: the JSON names of
// [limit.Config], which a test holds against it.
var limitFields = []string{"algorithm", "limit", "window", "capacity", "fillRate", "burst"}

// limit reads a limit configuration. Its meaning and its faults are package
// limit's; the members that are not its own are passed over.
func (j *judge) limit(o object) (c limit.Config, l limit.Limit) {
	text := []byte{'{'}
	sound := true
	for i, member := range o.names {
		if slices.Contains(limitFields, member.word) {
			sound = j.limitField(&o.kids[i], join(o.path, member.word)) && sound
			text = appendField(text, member.word, &o.kids[i])
		}
	}
	if !sound {
		return c, l
	}
	if json.Unmarshal(append(text, '}'), &c) != nil {
		j.limitFieldFaults(o)
		return limit.Config{}, l
	}
	l, err := limit.New(c)
	j.limitFaults(o, err)
	if err == nil {
		j.unusedFields(o, c.Algorithm)
	}
	return c, l
}

// unusedFields notes what belongs to other algorithms: nothing switches the limit of a
// rule or a client.
func (j *judge) unusedFields(o object, a limit.Algorithm) {
	uses := append(a.Fields(), "algorithm")
	for i, member := range o.names {
		if slices.Contains(limitFields, member.word) && !slices.Contains(uses, member.word) {
			j.note(o.kids[i].line, join(o.path, member.word), "has no effect with algorithm %v, which uses %s", a, cmp.Or(strings.Join(a.Fields(), ", "), "no numbers"))
		}
	}
}

// limitFaults notes the faults that package limit finds in what o describes.
func (j *judge) limitFaults(o object, err error) {
	faults, ok := errors.AsType[limit.Faults](err)
	for _, fault := range faults {
		line, path := o.line, o.path
		if n := o.member(fault.Path); n != nil {
			line = n.line
		}
		if fault.Path != "" {
			path = join(path, fault.Path)
		}
		j.fault(line, path, "%s", fault.Message)
	}
	if err != nil && !ok {
		j.fault(o.line, o.path, "%s", err)
	}
}

// limitField notes a member that no limit can have.
func (j *judge) limitField(n *node, path string) bool {
	if n.kind == kindNull || n.kind >= kindList {
		j.fault(n.line, path, "must be a number or a word, is %v", n)
		return false
	}
	return true
}

// limitFieldFaults decodes the members one by one, to tell each that is wrong.
func (j *judge) limitFieldFaults(o object) {
	for i, member := range o.names {
		n, path := &o.kids[i], join(o.path, member.word)
		if !slices.Contains(limitFields, member.word) {
			continue
		}
		var c limit.Config
		err := json.Unmarshal(append(appendField([]byte{'{'}, member.word, n), '}'), &c)
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			want := map[string]string{"int64": "a whole number", "float64": "a number"}[wrong.Type.String()]
			if want == "" {
				want = "a string"
			}
			j.fault(n.line, path, "must be %s, is %v", want, n)
		} else if err != nil {
			j.fault(n.line, path, "%s", err)
		}
	}
}

// appendField appends a member with a scalar as JSON.
func appendField(dst []byte, word string, n *node) []byte {
	if len(dst) > 1 {
		dst = append(dst, ',')
	}
	dst = append(append(append(dst, '"'), word...), `":`...)
	if n.kind != kindText {
		return append(dst, n.word...)
	}
	text, _ := json.Marshal(n.word)
	return append(dst, text...)
}
