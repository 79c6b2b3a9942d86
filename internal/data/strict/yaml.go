package strict

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v4"
)

const unsupported = "anchors, tags and merge keys are not supported"

// yaml reads a YAML file with one document. Anything beyond plain values (anchors, aliases, tags,
// merge keys, several documents) is refused.
func (r *Reader) yaml(data []byte) {
	size := -bytes.Count(data, []byte("\r\n"))
	// the library breaks lines at all of them
	for _, end := range []string{"\n", "\r", "\u0085", "\u2028", "\u2029", ","} {
		size += bytes.Count(data, []byte(end))
	}
	if size > valuesMax {
		r.add(Fault{Message: fmt.Sprintf("must be at most %d lines and commas", valuesMax)})
		return
	}
	var first, second yaml.Node
	documents := yaml.NewDecoder(bytes.NewReader(data))
	switch err := documents.Decode(&first); {
	case errors.Is(err, io.EOF):
		r.Root = &Node{Line: 1}
		return
	case err != nil:
		r.add(yamlFault(err))
		return
	}
	switch err := documents.Decode(&second); {
	case err == nil && second.Content[0].Tag == "!!null" && second.Content[0].Value == "": // a last line of ---
	case err == nil:
		r.add(Fault{Line: second.Content[0].Line, Message: "must be one YAML document, is several"})
		return
	case !errors.Is(err, io.EOF):
		r.add(yamlFault(err))
		return
	}
	r.Root = new(Node)
	*r.Root = r.node(first.Content[0], "", 0)
}

func yamlFault(err error) Fault {
	f := Fault{Line: 1, Message: err.Error()}
	if e, ok := errors.AsType[*yaml.LoadError](err); ok {
		f.Line, f.Message = max(1, e.Mark.Line), e.Message
	}
	if strings.HasPrefix(f.Message, "unknown anchor") {
		f.Message = "aliases are not supported; a string that begins with * must be in quotes"
	} else {
		f.Message = "not valid YAML: " + f.Message
	}
	return f
}

// node converts a node of the library.
func (r *Reader) node(y *yaml.Node, path string, depth int) Node {
	n := Node{Line: y.Line}
	switch {
	case depth > depthMax:
		r.add(Fault{Line: n.Line, Path: path, Message: fmt.Sprintf("nested deeper than %d levels", depthMax)})
	case y.Kind == yaml.AliasNode:
		r.add(Fault{Line: n.Line, Path: path,
			Message: "aliases are not supported; a string that begins with * must be in quotes"})
	case y.Anchor != "" || y.Style&yaml.TaggedStyle != 0:
		r.add(Fault{Line: n.Line, Path: path, Message: "must be a plain value, a list or an object; " + unsupported})
	case y.Kind == yaml.MappingNode:
		n.Kind = Object
		for i := 0; i < len(y.Content); i += 2 {
			r.member(&n, [2]*yaml.Node(y.Content[i:]), path, depth)
		}
	case y.Kind == yaml.SequenceNode:
		n.Kind = List
		for i, kid := range y.Content {
			n.Children = append(n.Children, r.node(kid, ElementPath(path, i), depth+1))
		}
	default:
		n.Kind, n.Word = scalar(y)
	}
	return n
}

func (r *Reader) member(n *Node, pair [2]*yaml.Node, path string, depth int) {
	key := pair[0]
	if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" || key.Anchor != "" || key.Style&yaml.TaggedStyle != 0 {
		r.add(Fault{Line: key.Line, Path: path, Message: "a name must be a plain string; " + unsupported})
		return
	}
	n.Names = append(n.Names, Name{[]byte(key.Value), key.Line})
	n.Children = append(n.Children, r.node(pair[1], MemberPath(path, key.Value), depth+1))
}

// scalar converts a scalar. Numbers have the form of JSON: 010 and 0x10 mean different things to
// different parsers, so they are strings.
func scalar(y *yaml.Node) (Kind, []byte) {
	word := append([]byte(nil), y.Value...) // nil for an omitted value
	switch y.Tag {
	case "!!null":
		return Null, word
	case "!!bool":
		return Bool, word
	case "!!int", "!!float":
		if s := (scanner{data: word}); s.number() == nil && s.pos == len(word) {
			return Number, word
		}
	}
	return Text, word
}
