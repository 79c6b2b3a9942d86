package rls

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"weir/internal/data/strict"
)

// The fields of messages, by both of their names: protojson takes either.
var (
	requestFields    = fields{{"domain", "domain"}, {"descriptors", "descriptors"}, {"hitsAddend", "hits_addend"}}
	descriptorFields = fields{{"entries", "entries"}, {"limit", "limit"}, {"hitsAddend", "hits_addend"},
		{"isNegativeHits", "is_negative_hits"}}
	entryFields    = fields{{"key", "key"}, {"value", "value"}}
	overrideFields = fields{{"requestsPerUnit", "requests_per_unit"}, {"unit", "unit"}}
)

// Read parses the request written as JSON in n, and borrows from it. The error is a
// [strict.Fault] with the path of the fault; r must not be used then.
func (r *Request) Read(n *strict.Node) error {
	r.Domain, r.Descriptors, r.HitsAddend = nil, r.Descriptors[:0], 0
	left := entriesMax
	return requestFields.each(n, func(field int, v *strict.Node) (err error) {
		switch field {
		case 0:
			r.Domain, err = text(v)
		case 1:
			if len(v.Children) > DescriptorsMax {
				return strict.Fault{Message: errDescriptors.Message}
			}
			return elements(v, func(one *strict.Node) error {
				r.Descriptors = another(r.Descriptors)
				return r.Descriptors[len(r.Descriptors)-1].read(one, &left)
			})
		default:
			var hits uint64
			hits, err = number(v, math.MaxUint32)
			r.HitsAddend = uint32(hits)
		}
		return err
	})
}

// read reads a descriptor, which may have left entries.
func (d *Descriptor) read(n *strict.Node, left *int) error {
	*d = Descriptor{Entries: d.Entries[:0]}
	return descriptorFields.each(n, func(field int, v *strict.Node) (err error) {
		switch field {
		case 0:
			if *left -= len(v.Children); *left < 0 {
				return strict.Fault{Message: errEntries.Message}
			}
			return elements(v, func(one *strict.Node) error {
				d.Entries = another(d.Entries)
				return d.Entries[len(d.Entries)-1].read(one)
			})
		case 1:
			return d.Override.read(v)
		case 2:
			d.Hits.Given = true
			d.Hits.Value, err = number(v, math.MaxUint64)
		default:
			if v.Kind != strict.Bool {
				return wrong(v, "true or false")
			}
			d.Negative = string(v.Word) == "true"
		}
		return err
	})
}

func (e *Entry) read(n *strict.Node) error {
	*e = Entry{}
	return entryFields.each(n, func(field int, v *strict.Node) (err error) {
		if field == 0 {
			e.Key, err = text(v)
		} else {
			e.Value, err = text(v)
		}
		return err
	})
}

func (o *Override) read(n *strict.Node) error {
	o.Given = true
	return overrideFields.each(n, func(field int, v *strict.Node) (err error) {
		if field == 0 {
			var each uint64
			each, err = number(v, math.MaxUint32)
			o.RequestsPerUnit = uint32(each)
			return err
		}
		if v.Kind == strict.Text {
			var ok bool
			if o.Unit, ok = unitNamed(string(v.Word)); !ok {
				return wrong(v, "one of UNKNOWN, SECOND, MINUTE, HOUR, DAY, MONTH, YEAR, WEEK")
			}
			return nil
		}
		unit, err := strconv.ParseInt(string(v.Word), 10, 32)
		if v.Kind != strict.Number || err != nil {
			return wrong(v, "the name or the number of a unit")
		}
		o.Unit = Unit(unit)
		return nil
	})
}

// fields are the fields of a message, each with its two names.
type fields [][2]string

// each calls read for each field of the message in n that is not null. An unknown or repeated
// field is an error.
func (f fields) each(n *strict.Node, read func(field int, v *strict.Node) error) error {
	if n.Kind != strict.Object {
		return wrong(n, "an object")
	}
	seen := 0
	for i := range n.Names {
		name := n.Names[i].Word
		field := f.find(name)
		if field < 0 {
			return strict.Fault{Path: strict.MemberPath("", string(name)), Message: "is unknown; the fields are " + f.String()}
		}
		if seen&(1<<field) != 0 {
			return strict.Fault{Path: strict.MemberPath("", string(name)), Message: "is given twice"}
		}
		seen |= 1 << field
		if n.Children[i].Kind == strict.Null {
			continue
		}
		if err := read(field, &n.Children[i]); err != nil {
			return strict.WithPath(strict.MemberPath("", string(name)), err)
		}
	}
	return nil
}

// find returns the index of the field with that name, or -1.
func (f fields) find(name []byte) int {
	for i := range f {
		if string(name) == f[i][0] || string(name) == f[i][1] {
			return i
		}
	}
	return -1
}

// String lists the fields for messages.
func (f fields) String() string {
	var all []string
	for i := range f {
		all = append(all, f[i][0])
	}
	return strings.Join(all, ", ")
}

// elements calls read for each element of a list.
func elements(n *strict.Node, read func(one *strict.Node) error) error {
	if n.Kind != strict.List {
		return wrong(n, "a list")
	}
	for i := range n.Children {
		if err := read(&n.Children[i]); err != nil {
			return strict.WithPath(strict.ElementPath("", i), err)
		}
	}
	return nil
}

// another returns list with one more element, which has the memory of an earlier one if there is
// room.
func another[T any](list []T) []T { return slices.Grow(list, 1)[:len(list)+1] }

func text(v *strict.Node) ([]byte, error) {
	if v.Kind != strict.Text {
		return nil, wrong(v, "a string")
	}
	return v.Word, nil
}

// number returns the value of an integer up to most. It may be written as a string, and with a
// fraction or an exponent if the value is an integer.
func number(v *strict.Node, most uint64) (uint64, error) {
	if v.Kind == strict.Number || v.Kind == strict.Text {
		if n, ok := whole(v.Word); ok && n <= most {
			return n, nil
		}
	}
	return 0, wrong(v, "a whole number from 0 to "+strconv.FormatUint(most, 10))
}

// whole parses a JSON number that is an integer up to MaxUint64.
func whole(word []byte) (uint64, bool) {
	n := uint64(0)
	for i, c := range word {
		if c < '0' || c > '9' || i > 0 && word[0] == '0' {
			return shifted(word)
		}
		if n > (math.MaxUint64-uint64(c-'0'))/10 {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return n, len(word) > 0
}

// shifted is like whole, for a number with a sign, a fraction or an exponent.
func shifted(word []byte) (uint64, bool) {
	var n strict.Node
	if n.Parse(word) != nil || n.Kind != strict.Number || len(n.Word) != len(word) {
		return 0, false
	}
	mantissa, exponent, exponential := strings.Cut(strings.ToLower(string(word)), "e")
	integer, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(strings.TrimPrefix(integer, "-")+fraction, "0")
	significant := strings.TrimRight(digits, "0")
	if significant == "" {
		return 0, true
	}
	power := 0
	if exponential {
		var err error
		if power, err = strconv.Atoi(exponent); err != nil {
			return 0, false
		}
	}
	zeros := power - len(fraction) + len(digits) - len(significant)
	if integer[0] == '-' || zeros < 0 || zeros > 20 {
		return 0, false
	}
	value, err := strconv.ParseUint(significant+strings.Repeat("0", zeros), 10, 64)
	return value, err == nil
}

// wrong returns the error that v is not what is wanted.
func wrong(v *strict.Node, want string) error {
	return strict.Fault{Message: "must be " + want + ", is " + v.String()}
}
