package rule

import (
	"slices"
	"strconv"
	"strings"
)

// A kind is what sort of value a node is.
type kind uint8

const (
	kindNull kind = iota
	kindBool
	kindNumber // written as JSON writes numbers
	kindText
	kindList
	kindObject
)

// String returns the kind as part of a sentence.
func (k kind) String() string {
	return [...]string{"null", "true or false", "a number", "a string", "a list", "an object"}[k]
}

// A node is a value of a YAML or JSON file with its place, before anybody knows
// what it should be. Both formats become nodes, so that there is one strict
// decoder.
type node struct {
	kind kind
	line int
	word string // of a scalar: the text of a string, else the value as written
	// names are those of an object's members, in step with kids.
	names []name
	kids  []node
}

// A name is a member's name.
type name struct {
	word string
	line int
}

// depthMax bounds how deep lists and objects may be nested.
const depthMax = 32

// String returns a scalar as it is shown in a fault, and of others the kind.
func (n *node) String() string {
	const shown = 80
	switch {
	case n.kind >= kindList || n.kind == kindNull:
		return n.kind.String()
	case n.kind == kindText && len(n.word) > shown:
		return strconv.Quote(n.word[:shown]) + "…"
	case n.kind == kindText:
		return strconv.Quote(n.word)
	}
	return n.word
}

// member returns the value of a member; nil when there is none.
func (n *node) member(word string) *node {
	for i := range n.names {
		if n.names[i].word == word {
			return &n.kids[i]
		}
	}
	return nil
}

// An object is a node that was found to be an object, with its path.
type object struct {
	*node
	path string
	j    *judge
}

// object returns n as an object that has no other members than the allowed ones,
// each once. With no names allowed all are. Otherwise faults are noted; what can
// be read is still read.
func (j *judge) object(n *node, path string, allowed ...string) object {
	o := object{n, path, j}
	if n.kind != kindObject {
		j.wrong(n, path, kindObject)
		o.node = &node{kind: kindObject, line: n.line}
		return o
	}
	twice := n.twice()
	for i, member := range n.names {
		if !twice(i) && (len(allowed) == 0 || slices.Contains(allowed, member.word)) {
			continue
		}
		at := join(path, member.word)
		if twice(i) {
			j.fault(member.line, at, "given twice")
			continue
		}
		near := slices.IndexFunc(allowed, func(a string) bool { return strings.EqualFold(a, member.word) })
		if near >= 0 {
			j.fault(member.line, at, "must be written %s", allowed[near])
			continue
		}
		why := "unknown field; allowed: " + strings.Join(allowed, ", ")
		if j.unknown != nil {
			j.unknown(Fault{member.line, at, why})
			continue
		}
		j.fault(member.line, at, "%s", why)
	}
	return o
}

// twice returns a function that says of each member whether an earlier one has
// its name.
func (n *node) twice() func(i int) bool {
	const few = 16 // are compared sooner than hashed
	if len(n.names) <= few {
		return func(i int) bool {
			return slices.ContainsFunc(n.names[:i], func(other name) bool { return other.word == n.names[i].word })
		}
	}
	first := make(map[string]int, len(n.names))
	for i, member := range slices.Backward(n.names) {
		first[member.word] = i
	}
	return func(i int) bool { return first[n.names[i].word] < i }
}

// list returns the elements of n.
func (j *judge) list(n *node, path string) []node {
	if n.kind != kindList {
		j.wrong(n, path, kindList)
		return nil
	}
	return n.kids
}

// atMost says whether there are at most so many elements or members in n, and
// notes it when not.
func (j *judge) atMost(n *node, path string, most int) bool {
	if len(n.kids) <= most {
		return true
	}
	j.fault(n.line, path, "must be at most %d, is %d", most, len(n.kids))
	return false
}

// wrong notes that n is not of the kind that is wanted.
func (j *judge) wrong(n *node, path string, want kind) {
	j.fault(n.line, path, "must be %v, is %v", want, n)
}

// at returns a member with its path; nil when there is none.
func (o object) at(word string) (n *node, path string) {
	return o.member(word), join(o.path, word)
}

// text reads a member that is a string; empty when it is missing or wrong.
func (o object) text(word string) string {
	n, path := o.at(word)
	if n == nil {
		return ""
	}
	if n.kind != kindText {
		o.j.wrong(n, path, kindText)
		return ""
	}
	if n.word == "" {
		o.j.fault(n.line, path, "must not be empty")
	}
	return n.word
}

// scalar reads a value that is compared with text, and may be written without
// quotes though it looks like a number.
func (j *judge) scalar(n *node, path string) string {
	if n.kind == kindNull || n.kind >= kindList {
		j.wrong(n, path, kindText)
	}
	return n.word
}

// flag reads a member that is true or false; false when it is missing.
func (o object) flag(word string) bool {
	n, path := o.at(word)
	if n == nil {
		return false
	}
	if n.kind != kindBool {
		o.j.wrong(n, path, kindBool)
	}
	return n.kind == kindBool && strings.EqualFold(n.word, "true")
}

// number reads a member that is a number from least to most; otherwise when it
// is missing or wrong.
func (o object) number(word string, least, most, otherwise float64) float64 {
	n, path := o.at(word)
	if n == nil {
		return otherwise
	}
	v, err := strconv.ParseFloat(n.word, 64)
	switch {
	case n.kind != kindNumber:
		o.j.wrong(n, path, kindNumber)
	case err != nil || v < least || v > most:
		o.j.fault(n.line, path, "must be from %v to %v, is %s", least, most, n.word)
	default:
		return v
	}
	return otherwise
}

// whole reads a whole number from least to most; least when it is wrong.
func (j *judge) whole(n *node, path string, least, most int64) int64 {
	v, err := strconv.ParseInt(n.word, 10, 64)
	switch {
	case n.kind != kindNumber:
		j.fault(n.line, path, "must be a whole number, is %v", n)
	case err != nil || v < least || v > most:
		j.fault(n.line, path, "must be a whole number from %d to %d, is %s", least, most, n.word)
	default:
		return v
	}
	return least
}

// oneOf reads a member that is one of some words; the first when it is missing
// or wrong.
func (o object) oneOf(word string, words ...string) string {
	n, path := o.at(word)
	if n == nil || n.kind == kindText && slices.Contains(words, n.word) {
		if n != nil {
			return n.word
		}
		return words[0]
	}
	o.j.fault(n.line, path, "must be one of %s, is %v", strings.Join(words, ", "), n)
	return words[0]
}

// join puts a member's name behind a path; a name that would blur the path is
// quoted.
func join(path, word string) string {
	plain := word != "" && strings.IndexFunc(word, func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) < 0
	switch {
	case !plain:
		return path + "[" + strconv.Quote(word) + "]"
	case path == "":
		return word
	}
	return path + "." + word
}

// element is the path of an element of a list.
func element(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
