package envoy

import (
	"strconv"

	"weir/proxy/rls"
)

// metadata returns the dynamic metadata of a response: the request, and the configured metadata
// of the limits that did not refuse.
func (c *Case) metadata() []rls.Field {
	r := &c.Request
	list := rls.Value{Kind: rls.ListValue}
	for i := range r.Descriptors {
		list.List = append(list.List, rls.Value{Kind: rls.StructValue, Fields: described(&r.Descriptors[i])})
	}
	fields := []rls.Field{{Name: "domain", Value: rls.Value{Kind: rls.TextValue, Text: string(r.Domain)}}, {Name: "descriptors", Value: list}}
	if r.HitsAddend != 0 {
		fields = append(fields, rls.Field{Name: "hitsAddend", Value: number(float64(r.HitsAddend))})
	}
	var passed []rls.Field
	for i := range c.asked {
		if a := &c.asked[i]; a.limits() && a.limit != nil && c.Response.Statuses[i].Code == rls.OK {
			passed = merge(passed, a.limit.Metadata)
		}
	}
	if passed != nil {
		fields = append(fields, rls.Field{Name: "metadata", Value: rls.Value{Kind: rls.StructValue, Fields: passed}})
	}
	return fields
}

// described returns a descriptor as metadata.
func described(d *rls.Descriptor) []rls.Field {
	list := rls.Value{Kind: rls.ListValue}
	for _, e := range d.Entries {
		list.List = append(list.List, rls.Value{Kind: rls.TextValue, Text: string(e.Key) + "=" + string(e.Value)})
	}
	fields := []rls.Field{{Name: "entries", Value: list}}
	if o := &d.Override; o.Given {
		text := "unit:" + o.Unit.String() // as protobuf writes it, without zeros
		if o.RequestsPerUnit != 0 {
			text = "requests_per_unit:" + strconv.Itoa(int(o.RequestsPerUnit)) + " " + text
		}
		fields = append(fields, rls.Field{Name: "limit", Value: rls.Value{Kind: rls.TextValue, Text: text}})
	}
	if d.Hits.Given {
		fields = append(fields, rls.Field{Name: "hitsAddend", Value: number(float64(d.Hits.Value))})
	}
	return fields
}

func number(n float64) rls.Value { return rls.Value{Kind: rls.NumberValue, Number: n} }

// merge returns the fields of both. Of two with one name the first wins, except that objects are
// merged. into is not modified, because limits share their metadata.
func merge(into, from []rls.Field) []rls.Field {
	merged := append([]rls.Field(nil), into...)
	for _, f := range from {
		at := -1
		for i := range merged {
			if merged[i].Name == f.Name {
				at = i
			}
		}
		switch {
		case at < 0:
			merged = append(merged, f)
		case merged[at].Value.Kind == rls.StructValue && f.Value.Kind == rls.StructValue:
			merged[at].Value.Fields = merge(merged[at].Value.Fields, f.Value.Fields)
		}
	}
	return merged
}
