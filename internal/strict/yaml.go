package strict

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

const (
	// Bounds on nesting that are checked before the YAML library sees the file: it
	// is recursive, and takes time that grows with the square of the depth.
	bracketsMax   = 2 * depthMax // open at a time, those in strings included
	indentMax     = 256          // columns
	indicatorsMax = depthMax     // "- " and "? " before a line's first value
	// linesMax bounds the lines of one object, or of one text: the library calls
	// itself for each member of an object, and takes time that grows with the square.
	linesMax = 4096
)

// yaml reads the one document of a YAML 1.2 file. What is beyond plain values (anchors,
// aliases, tags, merge keys, several documents) is refused: a file should say what it
// means where it says it.
func (r *Reader) yaml(data []byte) {
	if line, what := tooDeep(data); line > 0 {
		r.add(Fault{Line: line, Message: what})
		return
	}
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		f := Fault{Line: 1, Message: "not valid YAML: " + err.Error()}
		var syntax interface {
			GetMessage() string
			GetToken() *token.Token
		}
		if errors.As(err, &syntax) {
			f = Fault{Line: lineOf(syntax.GetToken()), Message: "not valid YAML: " + syntax.GetMessage()}
		}
		r.add(f)
		return
	}
	if len(file.Docs) > 1 && file.Docs[1].Body != nil {
		r.add(Fault{Line: lineOf(file.Docs[1].Body.GetToken()), Message: "must be one YAML document without directives, is several"})
		return
	}
	r.Root = &Node{Line: 1}
	if len(file.Docs) > 0 && file.Docs[0].Body != nil {
		*r.Root = r.node(file.Docs[0].Body, "", 0)
	}
}

func lineOf(t *token.Token) int {
	if t == nil || t.Position == nil {
		return 1 // of what is not written: an empty document
	}
	return t.Position.Line
}

// tooDeep returns the first line that is nested deeper, or in a longer object, than
// anybody means, or 0.
func tooDeep(data []byte) (line int, what string) {
	open := 0
	var lines [indentMax + 1]int // by indent, since the last line with less
	for text := range bytes.Lines(data) {
		line++
		indent, indicators, first := 0, 0, 0
		for indent < len(text) && strings.IndexByte(" \t-?:!&", text[indent]) >= 0 {
			if c := text[indent]; c != ' ' && c != '\t' {
				indicators++
			}
			indent++
			if indicators == 0 {
				first = indent
			}
		}
		for _, c := range text {
			switch c {
			case '[', '{':
				open++
			case ']', '}':
				open = max(0, open-1)
			}
			if open > bracketsMax {
				return line, "nested too deep: too many open brackets"
			}
		}
		if indent > indentMax || indicators > indicatorsMax && indent < len(text) {
			return line, "nested too deep, or indented too far"
		}
		if indent == len(text) || text[indent] == '\n' || text[indent] == '#' {
			continue
		}
		clear(lines[min(first, indentMax)+1:])
		if strings.IndexByte("{}[]", text[indent]) >= 0 { // of a list
			continue
		}
		if lines[min(indent, indentMax)]++; lines[min(indent, indentMax)] > linesMax {
			return line, fmt.Sprintf("must be at most %d lines in one object or text", linesMax)
		}
	}
	return 0, ""
}

// node turns the library's tree into ours.
func (r *Reader) node(y ast.Node, path string, depth int) Node {
	n := Node{Line: lineOf(y.GetToken())}
	if depth > depthMax {
		r.add(Fault{n.Line, path, fmt.Sprintf("nested deeper than %d levels", depthMax)})
		return n
	}
	switch y := y.(type) {
	case *ast.NullNode:
		n.Word = []byte("null")
	case *ast.BoolNode:
		n.Kind, n.Word = Bool, []byte(y.Token.Value)
	case *ast.IntegerNode:
		n.Kind, n.Word = kindOf(y.Token.Value), []byte(y.Token.Value)
	case *ast.FloatNode:
		n.Kind, n.Word = kindOf(y.Token.Value), []byte(y.Token.Value)
	case *ast.InfinityNode, *ast.NanNode:
		n.Kind, n.Word = Text, []byte(y.GetToken().Value)
	case *ast.StringNode:
		n.Kind, n.Word = Text, []byte(y.Value)
		if y.Token.Type == token.StringType { // without quotes: 1e3, which the library leaves a string
			n.Kind = kindOf(y.Value)
		}
	case *ast.LiteralNode:
		n.Kind, n.Word = Text, []byte(y.Value.Value)
	case *ast.MappingValueNode:
		n.Kind = Object
		r.member(&n, y, path, depth)
	case *ast.MappingNode:
		n.Kind = Object
		for _, member := range y.Values {
			r.member(&n, member, path, depth)
		}
	case *ast.SequenceNode:
		n.Kind = List
		for i, kid := range y.Values {
			if word, ok := glued(kid); ok {
				n.Kids = append(n.Kids, Node{Kind: Text, Line: lineOf(kid.GetToken()), Word: []byte(word)})
				continue
			}
			n.Kids = append(n.Kids, r.node(kid, Element(path, i), depth+1))
		}
	case *ast.AliasNode:
		r.add(Fault{n.Line, path, "aliases are not supported; a string that begins with * must be in quotes"})
	default:
		r.add(Fault{n.Line, path, "must be a plain value, a list or an object; anchors, tags and merge keys are not supported"})
	}
	return n
}

// glued returns header:X-Id of an element written so. Inside braces the library
// takes it for an object with one member, whatever stands behind the colon
// (goccy/go-yaml issue 832); in YAML 1.2 a colon without a space behind it is a
// part of the string.
func glued(y ast.Node) (word string, ok bool) {
	object, ok := y.(*ast.MappingNode)
	if !ok || len(object.Values) != 1 || object.IsFlowStyle {
		return "", false
	}
	member := object.Values[0]
	if member.Value == nil {
		return "", false
	}
	key, colon, value := member.Key.GetToken(), member.Start, member.Value.GetToken()
	if _, plain := member.Value.(ast.ScalarNode); !plain || key.Type != token.StringType {
		return "", false
	}
	switch value.Type {
	case token.SingleQuoteType, token.DoubleQuoteType, token.LiteralType, token.FoldedType:
		return "", false
	}
	near := key.Position.Line == value.Position.Line && colon.Position.Column+1 == value.Position.Column &&
		key.Position.Column+utf8.RuneCountInString(key.Value) == colon.Position.Column
	return key.Value + ":" + value.Value, near
}

func (r *Reader) member(n *Node, y *ast.MappingValueNode, path string, depth int) {
	line, word := lineOf(y.Key.GetToken()), ""
	switch key := y.Key.(type) {
	case *ast.StringNode:
		word = key.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		word = key.GetToken().Value
	default:
		r.add(Fault{line, path, "a name must be a plain string; anchors, tags and merge keys are not supported"})
		return
	}
	n.Names = append(n.Names, Name{[]byte(word), line})
	if y.Value == nil {
		n.Kids = append(n.Kids, Node{Line: line, Word: []byte("null")})
		return
	}
	n.Kids = append(n.Kids, r.node(y.Value, Member(path, word), depth+1))
}

// kindOf tells numbers, which are written as in JSON, from other plain scalars: 010 and
// 0x10 mean different things to different readers.
func kindOf(word string) Kind {
	s := scanner{data: []byte(word)}
	if s.number() == nil && s.pos == len(word) {
		return Number
	}
	return Text
}
