package strict

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// A Kind is what sort of value a node is.
type Kind uint8

// The kinds of values.
const (
	Null Kind = iota
	Bool
	Number // written as JSON writes numbers
	Text
	List
	Object
)

// String returns the kind as part of a sentence.
func (k Kind) String() string {
	return [...]string{"null", "true or false", "a number", "a string", "a list", "an object"}[k]
}

// A Node is a value of a document with its place, before anybody knows what it should
// be. JSON and YAML become the same nodes. Words are borrowed from the document.
//
// Owned by its Reader.
type Node struct {
	Kind       Kind
	made       int32 // places for Names and Kids that Parse has made below this root
	Line       int
	Word       []byte // of a scalar: the text of a string, else the value as written
	Names      []Name // of an object's members, in step with Kids
	Kids       []Node
	start, end int // of the JSON text
}

// A Name is a member's name.
type Name struct {
	Word []byte
	Line int
}

const (
	// keptMax bounds the places that Parse keeps: messages that are large each at another
	// path would otherwise add up.
	keptMax = 1024
	// keptBytesMax bounds the message whose places are kept, as they refer to it.
	keptBytesMax = 4 << 10
)

// Parse makes n the value of data, which is JSON and nothing else. It keeps the memory of
// what n was before, unless that was much, so that reading one small message after another
// allocates nothing but for strings with escapes. The error is a [Fault] without a line;
// then n must not be used.
func (n *Node) Parse(data []byte) error {
	if n.made > keptMax || n.end > keptBytesMax {
		*n = Node{}
	}
	s := scanner{data: data, line: 1, made: n.made}
	_, wrong := s.into(n)
	n.made = s.made
	if wrong != nil {
		return s.whole(wrong)
	}
	return nil
}

// String returns a scalar as faults show it, and of others the kind.
func (n *Node) String() string {
	const shown = 80
	switch {
	case n.Kind >= List || n.Kind == Null:
		return n.Kind.String()
	case n.Kind == Text && len(n.Word) > shown:
		return strconv.Quote(string(n.Word[:shown])) + "…"
	case n.Kind == Text:
		return strconv.Quote(string(n.Word))
	}
	return string(n.Word)
}

// Member returns the value of a member; nil when there is none.
func (n *Node) Member(word string) *Node {
	for i := range n.Names {
		if string(n.Names[i].Word) == word {
			return &n.Kids[i]
		}
	}
	return nil
}

// Drop takes members out of an object that is written as JSON.
func (n *Node) Drop(names []string) {
	kept := Node{}
	for i, name := range n.Names {
		if !slices.Contains(names, string(name.Word)) {
			kept.Names, kept.Kids = append(kept.Names, name), append(kept.Kids, n.Kids[i])
		}
	}
	if n.Kind == Object && n.end > 0 {
		n.Names, n.Kids = kept.Names, kept.Kids
	}
}

// at follows a path as far as it leads.
func (n *Node) at(path string) (found *Node, whole bool) {
	for path != "" {
		path = strings.TrimPrefix(path, ".")
		kid, rest := n.step(path)
		if kid == nil {
			return n, false
		}
		n, path = kid, rest
	}
	return n, true
}

// step follows the first step of a path, and returns what is left of it; nil when n has
// nothing there.
func (n *Node) step(path string) (kid *Node, rest string) {
	if digits, rest, ok := strings.Cut(strings.TrimPrefix(path, "["), "]"); ok && n.Kind == List {
		if i, err := strconv.Atoi(digits); err == nil && i < len(n.Kids) {
			return &n.Kids[i], rest
		}
		return nil, ""
	}
	for i := range n.Names {
		rest, ok := strings.CutPrefix(path, nameStep(string(n.Names[i].Word)))
		if ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return &n.Kids[i], rest
		}
	}
	return nil, ""
}

// twice returns a function that says of each member whether an earlier one has its name.
func (n *Node) twice() func(i int) bool {
	const few = 16 // are compared sooner than hashed
	if len(n.Names) <= few {
		return func(i int) bool {
			for _, other := range n.Names[:i] {
				if bytes.Equal(other.Word, n.Names[i].Word) {
					return true
				}
			}
			return false
		}
	}
	first := make(map[string]int, len(n.Names))
	for i := len(n.Names) - 1; i >= 0; i-- {
		first[string(n.Names[i].Word)] = i
	}
	return func(i int) bool { return first[string(n.Names[i].Word)] < i }
}
