package envoy

import (
	"maps"
	"strconv"

	"weir/proxy/rules/rls"
)

// metadata returns the dynamic metadata of a response: the request, and the configured metadata
// of the limits that did not refuse.
func (c *Evaluation) metadata() rls.Struct {
	r := &c.Request
	var descriptors []any
	for i := range r.Descriptors {
		descriptors = append(descriptors, described(&r.Descriptors[i]))
	}
	s := rls.Struct{"domain": string(r.Domain), "descriptors": descriptors}
	if r.HitsAddend != 0 {
		s["hitsAddend"] = float64(r.HitsAddend)
	}
	var passed rls.Struct
	for i := range c.asked {
		if a := &c.asked[i]; a.limits() && c.Response.Statuses[i].Code == rls.OK {
			passed = merge(passed, a.limit.Metadata)
		}
	}
	if len(passed) > 0 {
		s["metadata"] = passed
	}
	return s
}

// described returns a descriptor as metadata.
func described(d *rls.Descriptor) rls.Struct {
	var entries []any
	for _, e := range d.Entries {
		entries = append(entries, string(e.Key)+"="+string(e.Value))
	}
	s := rls.Struct{"entries": entries}
	if o := &d.Override; o.Given {
		text := "unit:" + o.Unit.String() // as protobuf writes it, without zeros
		if o.RequestsPerUnit != 0 {
			text = "requests_per_unit:" + strconv.Itoa(int(o.RequestsPerUnit)) + " " + text
		}
		s["limit"] = text
	}
	if d.Hits.Given {
		s["hitsAddend"] = float64(d.Hits.Value)
	}
	return s
}

// merge returns the fields of both. Of two with one name the first wins, except that objects are
// merged. into is not modified, because limits share their metadata.
func merge(into, from rls.Struct) rls.Struct {
	merged := make(rls.Struct, len(into)+len(from))
	maps.Copy(merged, from)
	maps.Copy(merged, into)
	for name, value := range into {
		first, isStruct := value.(rls.Struct)
		if second, areStructs := from[name].(rls.Struct); isStruct && areStructs {
			merged[name] = merge(first, second)
		}
	}
	return merged
}
