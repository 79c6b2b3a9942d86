package http1

// fieldLine reads the field line at b[at:] into f and returns the index behind
// its CRLF (RFC 9112 5), or 0 when there is no well-formed line. The fault
// means something only if b[at:] is one complete line free of control
// characters.
//
// Serves field lines and trailer lines of both roles.
func fieldLine(b []byte, at int, f *Field) (next int, flt fault) {
	line, n, class := b[at:], 0, uint8(classWord)
	for n < len(line) && tokenClass[line[n]] == classWord {
		n++
	}
	if n < len(line) && line[n] != ':' {
		for ; n < len(line) && tokenClass[line[n]] != classEnd; n++ {
			class |= tokenClass[line[n]]
		}
	}
	if n == 0 || n == len(line) || line[n] != ':' {
		return 0, nameFault(line, n)
	}
	i := n + 1
	for i < len(line) && (line[i] == ' ' || line[i] == '\t') {
		i++
	}
	value := line[i:]
	end := nextControl(value)
	if end < len(value) && value[end] == '\t' {
		end = controlAt(value)
	}
	if end+1 >= len(value) || value[end] != '\r' || value[end+1] != '\n' {
		return 0, noFault
	}
	next = at + i + end + 2
	for end > 0 && (value[end-1] == ' ' || value[end-1] == '\t') {
		end--
	}
	f.Name, f.Value = line[:n:n], value[:end:end]
	f.ID = fieldIDOf(line[:n])
	f.Hop, f.Odd = f.ID.Hop(), class != classWord
	return next, noFault
}

// nameFault says what is wrong with the field line whose name ends at i.
func nameFault(line []byte, i int) fault {
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

// facts is what the fields of a head say about more than themselves, gathered
// in the one pass over them.
type facts struct {
	framed
	host                               []byte
	hosts                              int
	connections                        int
	expects, continues                 int
	upgrade                            bool
	closes, keepsAlive, upgradeOffered bool // options of the Connection field
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

// expectation folds all Expect fields into one.
func (k *facts) expectation() Expect {
	switch {
	case k.expects == 0:
		return ExpectNone
	case k.expects == k.continues:
		return ExpectContinue
	}
	return ExpectOther
}

// connectionOptions reads the Connection fields: close, keep-alive and upgrade
// become facts, each other option takes the fields with that name off the
// forwarder's list (RFC 9110 7.6.1). Naming a field of the framing or Host
// changes nothing: they are not forwarded anyway and count all the same.
func (k *facts) connectionOptions(fields []Field, most uint16) fault {
	count := 0
	for i := range fields {
		if fields[i].ID != FieldConnection {
			continue
		}
		rest := fields[i].Value
		for rest != nil {
			if count++; count > int(most) {
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
			if foldEqualBytes(fields[i].Name, option) {
				fields[i].Hop = true
			}
		}
	}
}

// cutList splits the first element from a comma-separated list, without the
// whitespace around it. rest is nil after the last one.
func cutList(list []byte) (element, rest []byte) {
	for i, c := range list {
		if c == ',' {
			return trimOWS(list[:i]), list[i+1:]
		}
	}
	return trimOWS(list), nil
}
