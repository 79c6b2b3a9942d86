package strict

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// A Kind is the kind of value of a node.
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

// A Node is a value of a document with its position. JSON and YAML become the same nodes. Words
// are borrowed from the document.
//
// Owned by its Reader.
type Node struct {
	Kind       Kind
	made       int32 // capacity of Names and Children that Parse has allocated below this root
	Line       int
	Word       []byte // of a scalar: the text of a string, otherwise the value as written
	Names      []Name // of an object's members, parallel to Children
	Children   []Node
	start, end int // range of the JSON text
}

// A Name is a member's name.
type Name struct {
	Word []byte
	Line int
}

const (
	// keptMax bounds the capacity that Parse keeps. Otherwise the memory for messages that
	// are large at different paths would add up.
	keptMax = 1024
	// keptBytesMax bounds the message whose nodes are kept, because they refer to it.
	keptBytesMax = 4 << 10
)

// Parse parses data, which must be one JSON value, into n. It reuses the memory of n unless that
// is large, so that parsing small messages allocates only for strings with escapes. The error is
// a [Fault] without a line; n must not be used then.
func (n *Node) Parse(data []byte) error {
	if n.made > keptMax || n.end > keptBytesMax {
		*n = Node{}
	}
	s := scanner{data: data, line: 1, made: n.made}
	wrong := s.document(n)
	n.made = s.made
	if wrong != nil {
		return s.whole(wrong)
	}
	return nil
}

// String returns a scalar in the form for faults, or the kind of other values.
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

// Member returns the value of a member, or nil if there is none.
func (n *Node) Member(word string) *Node {
	for i := range n.Names {
		if string(n.Names[i].Word) == word {
			return &n.Children[i]
		}
	}
	return nil
}

// Drop removes members from an object that is written as JSON.
func (n *Node) Drop(names []string) {
	kept := Node{}
	for i, name := range n.Names {
		if !slices.Contains(names, string(name.Word)) {
			kept.Names, kept.Children = append(kept.Names, name), append(kept.Children, n.Children[i])
		}
	}
	if n.Kind == Object && n.end > 0 {
		n.Names, n.Children = kept.Names, kept.Children
	}
}

// at follows a path as far as it exists.
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

// step follows the first step of a path, and returns the rest of the path. kid is nil if n has no
// such member or element.
func (n *Node) step(path string) (kid *Node, rest string) {
	if digits, rest, ok := strings.Cut(strings.TrimPrefix(path, "["), "]"); ok && n.Kind == List {
		if i, err := strconv.Atoi(digits); err == nil && i < len(n.Children) {
			return &n.Children[i], rest
		}
		return nil, ""
	}
	for i := range n.Names {
		rest, ok := strings.CutPrefix(path, nameStep(string(n.Names[i].Word)))
		if ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return &n.Children[i], rest
		}
	}
	return nil, ""
}

// twice returns a function that reports whether an earlier member has the name of member i.
func (n *Node) twice() func(i int) bool {
	const few = 16 // comparing them is faster than hashing
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
