package http1

import "bytes"

// fieldLine reads the field line at the beginning of b into f and returns its length with the CRLF
// (RFC 9112 5), or 0 when there is no well-formed line. The fault means something only if b is one
// complete line free of control characters.
//
// It is used for field lines and trailer lines of both roles.
func fieldLine(b []byte, f *Field) (n int, flt fault) {
	colon := bytes.IndexByte(b, ':')
	if colon <= 0 {
		return 0, nameFault(b)
	}
	name, rest := b[:colon:colon], b[colon+1:]
	id, class := fieldIDOf(name)
	if class >= classEnd {
		return 0, nameFault(b)
	}
	cr := nextControl(rest)
	if cr < len(rest) && rest[cr] == '\t' {
		cr = controlAt(rest)
	}
	if cr+1 >= len(rest) || rest[cr] != '\r' || rest[cr+1] != '\n' {
		return 0, noFault
	}
	n = colon + 1 + cr + 2
	value, line := rest[:cr:cr], b[:n]
	if cr > 1 && value[0] == ' ' && value[1] > ' ' && value[cr-1] > ' ' {
		value = value[1:]
	} else {
		value, line = bytes.Trim(value, " \t"), nil
		value = value[:len(value):len(value)]
	}
	f.Name, f.Value, f.line = name, value, line
	f.ID, f.Hop, f.AmbiguousName = id, id.Hop(), class != classWord
	return n, noFault
}

// nameFault returns the fault of the name in a field line.
func nameFault(line []byte) fault {
	i := 0
	for i < len(line) && tokenClass[line[i]] != classEnd {
		i++
	}
	switch {
	case i == len(line) || line[i] == '\r':
		return faultNoColon
	case line[i] == ':':
		return faultNameEmpty
	case line[i] != ' ' && line[i] != '\t':
		return faultName
	case i == 0:
		return faultFold
	}
	return faultNameSpace
}

// facts is what the fields of a head mean for the message, collected in one pass over them.
type facts struct {
	framed
	host                               []byte
	hosts                              int
	connections                        int
	expects, continues                 int
	upgrade                            bool
	closes, keepsAlive, upgradeOffered bool // options of the Connection field
}

// noteAll notes what the fields of h mean, and h.ids.
func (k *facts) noteAll(h *Head) {
	fields, ids := h.Fields, uint64(1) // so that it is not 0
	for i := range fields {
		f := &fields[i]
		ids |= 1 << (f.ID & 63)
		if f.ID-1 < lastFactField { // not FieldOther, which is 0
			k.note(f)
		}
	}
	h.ids = ids
}

func (k *facts) note(f *Field) {
	switch f.ID {
	case FieldHost:
		k.host = f.Value
		k.hosts++
	case FieldContentLength:
		k.length = f.Value
		k.lengths++
	case FieldTransferEncoding:
		k.coding = f.Value
		k.codings++
	case FieldConnection:
		k.connections++
	case FieldUpgrade:
		k.upgrade = k.upgrade || len(f.Value) > 0
	case FieldExpect:
		k.expects++
		if foldEqual(f.Value, "100-continue") {
			k.continues++
		}
	}
}

// expectation combines all Expect fields.
func (k *facts) expectation() Expect {
	switch {
	case k.expects == 0:
		return ExpectNone
	case k.expects == k.continues:
		return ExpectContinue
	}
	return ExpectOther
}

// connectionOptions processes the Connection fields: close, keep-alive and upgrade become facts,
// and fields named by other options are not forwarded (RFC 9110 7.6.1). Naming a framing field or
// Host has no effect: these are not forwarded anyway, and still count.
func (k *facts) connectionOptions(fields []Field) fault {
	count := 0
	for i := range fields {
		if fields[i].ID != FieldConnection {
			continue
		}
		rest := fields[i].Value
		for rest != nil {
			if count++; count > optionsMax {
				return faultTooManyOptions
			}
			var option []byte
			option, rest = cutList(rest)
			k.option(option, fields)
		}
	}
	return noFault
}

func (k *facts) option(option []byte, fields []Field) {
	switch {
	case len(option) == 0:
	case foldEqual(option, "keep-alive"):
		k.keepsAlive = true
	case foldEqual(option, "close"):
		k.closes = true
	case foldEqual(option, "upgrade"):
		k.upgradeOffered = true
	default:
		for i := range fields {
			if EqualFold(fields[i].Name, option) {
				fields[i].Hop = true
			}
		}
	}
}

// cutList splits the first element from a comma-separated list, without surrounding whitespace
// (RFC 9110 5.6.1). rest is nil after the last element.
func cutList(list []byte) (element, rest []byte) {
	element, rest, _ = bytes.Cut(list, []byte(","))
	return bytes.Trim(element, " \t"), rest
}
