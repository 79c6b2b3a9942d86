package rls

import "weir/internal/data/protowire"

// ReadProto parses the request in protobuf's binary form, and borrows from b. Fields that are unknown, or have
// another type than in rls.proto, are skipped; if a field occurs twice, the last value counts. The error is a
// [strict.Fault] with the path of the fault; r must not be used then.
func (r *Request) ReadProto(b []byte) error {
	r.Domain, r.Descriptors, r.HitsAddend = nil, r.Descriptors[:0], 0
	m, left := protowire.Read(b), entriesMax
	for m.Next() {
		switch m.Tag {
		case 1<<3 | protowire.Bytes:
			r.Domain = m.Text("domain")
		case 2<<3 | protowire.Bytes:
			i := len(r.Descriptors)
			if i == DescriptorsMax {
				return errDescriptors
			}
			r.Descriptors = another(r.Descriptors)
			m.Element("descriptors", i, r.Descriptors[i].readProto(m.Bytes, &left))
		case 3<<3 | protowire.Varint:
			r.HitsAddend = uint32(m.Number)
		}
	}
	return m.Err()
}

// readProto reads a descriptor, which may have left entries.
func (d *Descriptor) readProto(b []byte, left *int) error {
	*d = Descriptor{Entries: d.Entries[:0]}
	m := protowire.Read(b)
	for m.Next() {
		switch m.Tag {
		case 1<<3 | protowire.Bytes:
			if *left--; *left < 0 {
				return errEntries
			}
			i := len(d.Entries)
			d.Entries = another(d.Entries)
			m.Element("entries", i, d.Entries[i].readProto(m.Bytes))
		case 2<<3 | protowire.Bytes:
			m.Within("limit", d.Override.readProto(m.Bytes))
		case 3<<3 | protowire.Bytes:
			m.Within("hitsAddend", d.Hits.readProto(m.Bytes))
		case 4<<3 | protowire.Varint:
			d.Negative = m.Number != 0
		}
	}
	return m.Err()
}

func (e *Entry) readProto(b []byte) error {
	*e = Entry{}
	m := protowire.Read(b)
	for m.Next() {
		switch m.Tag {
		case 1<<3 | protowire.Bytes:
			e.Key = m.Text("key")
		case 2<<3 | protowire.Bytes:
			e.Value = m.Text("value")
		}
	}
	return m.Err()
}

// readProto reads what it finds into o: messages that are given twice are merged.
func (o *Override) readProto(b []byte) error {
	o.Given = true
	m := protowire.Read(b)
	for m.Next() {
		switch m.Tag {
		case 1<<3 | protowire.Varint:
			o.RequestsPerUnit = uint32(m.Number)
		case 2<<3 | protowire.Varint:
			o.Unit = Unit(m.Number)
		}
	}
	return m.Err()
}

// readProto reads a google.protobuf.UInt64Value.
func (h *Hits) readProto(b []byte) error {
	h.Given = true
	m := protowire.Read(b)
	for m.Next() {
		if m.Tag == 1<<3|protowire.Varint {
			h.Value = m.Number
		}
	}
	return m.Err()
}
