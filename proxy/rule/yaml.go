package rule

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
	// fileBytesMax bounds a file of rules.
	fileBytesMax = 8 << 20
	// Bounds on nesting that are checked before the YAML library sees the file: it
	// is recursive, and takes time that grows with the square of the depth.
	bracketsMax   = 2 * depthMax // open at a time, those in strings included
	indentMax     = 256          // columns
	indicatorsMax = depthMax     // "- " and "? " before a line's first value
	// linesMax bounds the lines of one object, or of one text: the library calls
	// itself for each member of an object, and takes time that grows with the square.
	linesMax = 4096
)

// readYAML returns the one document of a YAML 1.2 file. What is beyond plain
// values (anchors, aliases, tags, merge keys, several documents) is refused:
// a file of limits should say what it means where it says it.
func (j *judge) readYAML(data []byte) (n node, ok bool) {
	if line, what := tooDeep(data); line > 0 {
		j.fault(line, "", "%s", what)
		return n, false
	}
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		var syntax interface {
			GetMessage() string
			GetToken() *token.Token
		}
		if errors.As(err, &syntax) {
			j.fault(lineOf(syntax.GetToken()), "", "not valid YAML: %s", syntax.GetMessage())
		} else {
			j.fault(1, "", "not valid YAML: %s", err)
		}
		return n, false
	}
	if len(file.Docs) > 1 && file.Docs[1].Body != nil {
		j.fault(lineOf(file.Docs[1].Body.GetToken()), "", "must be one YAML document without directives, is several")
		return n, false
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		j.fault(1, "", "is empty; must be an object with rules, or with domain and descriptors; rules: [] is no rules")
		return n, false
	}
	before := len(j.faults)
	n = j.fromYAML(file.Docs[0].Body, "", 0)
	return n, len(j.faults) == before
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

// fromYAML turns the library's tree into ours.
func (j *judge) fromYAML(y ast.Node, path string, depth int) node {
	n := node{line: lineOf(y.GetToken())}
	if depth > depthMax {
		j.fault(n.line, path, "nested deeper than %d levels", depthMax)
		return n
	}
	switch y := y.(type) {
	case *ast.NullNode:
		n.word = "null"
	case *ast.BoolNode:
		n.kind, n.word = kindBool, y.Token.Value
	case *ast.IntegerNode:
		n.kind, n.word = kindOf(y.Token.Value), y.Token.Value
	case *ast.FloatNode:
		n.kind, n.word = kindOf(y.Token.Value), y.Token.Value
	case *ast.InfinityNode, *ast.NanNode:
		n.kind, n.word = kindText, y.GetToken().Value
	case *ast.StringNode:
		n.kind, n.word = kindText, y.Value
		if y.Token.Type == token.StringType { // without quotes: 1e3, which the library leaves a string
			n.kind = kindOf(y.Value)
		}
	case *ast.LiteralNode:
		n.kind, n.word = kindText, y.Value.Value
	case *ast.MappingValueNode:
		n.kind = kindObject
		j.yamlMember(&n, y, path, depth)
	case *ast.MappingNode:
		n.kind = kindObject
		for _, member := range y.Values {
			j.yamlMember(&n, member, path, depth)
		}
	case *ast.SequenceNode:
		n.kind = kindList
		for i, kid := range y.Values {
			if word, ok := glued(kid); ok {
				n.kids = append(n.kids, node{kind: kindText, line: lineOf(kid.GetToken()), word: word})
				continue
			}
			n.kids = append(n.kids, j.fromYAML(kid, element(path, i), depth+1))
		}
	case *ast.AliasNode:
		j.fault(n.line, path, "aliases are not supported; a string that begins with * must be in quotes")
	default:
		j.fault(n.line, path, "must be a plain value, a list or an object; anchors, tags and merge keys are not supported")
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

func (j *judge) yamlMember(n *node, y *ast.MappingValueNode, path string, depth int) {
	line, word := lineOf(y.Key.GetToken()), ""
	switch key := y.Key.(type) {
	case *ast.StringNode:
		word = key.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		word = key.GetToken().Value
	default:
		j.fault(line, path, "a name must be a plain string; anchors, tags and merge keys are not supported")
		return
	}
	n.names = append(n.names, name{word, line})
	if y.Value == nil {
		n.kids = append(n.kids, node{line: line, word: "null"})
		return
	}
	n.kids = append(n.kids, j.fromYAML(y.Value, join(path, word), depth+1))
}

// kindOf tells numbers, which are written as in JSON, from other plain scalars:
// 010 and 0x10 mean different things to different readers.
func kindOf(word string) kind {
	if isNumber(word) {
		return kindNumber
	}
	return kindText
}
