package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"strings"
	"unicode/utf8"
)

// The bounds on shape. Those on lines and nesting do not hold for tests. A package has no bound: it
// has one idea, and as many files as that needs.
const (
	fileLinesMax     = 400
	mainLinesMax     = 150 // of a program's main.go
	functionLinesMax = 60
	parametersMax    = 5
	nestingMax       = 3
	columnsMax       = 120
)

// checkShape checks the bounds on shape.
func (r *repository) checkShape(f *file) {
	bound := func(n ast.Node, have int, what string, most int) {
		if have > most {
			r.reportAt(n, "%d %s, at most %d are allowed", have, what, most)
		}
	}
	r.checkWidth(f)
	if f.isTest() {
		return
	}
	lines := strings.Count(f.content, "\n")
	bound(f.syntax, lines, "lines in a file", fileLinesMax)
	if f.syntax.Name.Name == "main" && path.Base(f.name) == "main.go" {
		bound(f.syntax, lines, "lines in main.go", mainLinesMax)
	}
	for _, declared := range f.syntax.Decls {
		if function, ok := declared.(*ast.FuncDecl); ok {
			first, last := r.lines(function)
			bound(function, last-first+1, "lines in a function", functionLinesMax)
			bound(function, function.Type.Params.NumFields(), "parameters", parametersMax)
			deepest := 0
			ast.Walk(nest{deepest: &deepest}, function)
			bound(function, deepest, "levels of nesting", nestingMax)
		}
	}
}

// lines returns the first and the last line of n.
func (r *repository) lines(n ast.Node) (first, last int) {
	return r.positions.Position(n.Pos()).Line, r.positions.Position(n.End()).Line
}

// A nest is a visitor that finds how many control statements enclose the innermost one, itself
// included. An else if is not deeper than its if, and a function literal begins at 0.
type nest struct {
	depth   int
	elseIf  ast.Node // that of the enclosing if
	deepest *int
}

// Visit implements ast.Visitor.
func (d nest) Visit(n ast.Node) ast.Visitor {
	switch s := n.(type) {
	case *ast.FuncLit:
		d.depth = 0
	case *ast.IfStmt:
		if n != d.elseIf {
			d.depth++
		}
		d.elseIf = s.Else
	case *ast.ForStmt, *ast.RangeStmt, *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt:
		d.depth++
	}
	*d.deepest = max(*d.deepest, d.depth)
	return d
}

// longString is the length from which a string makes its line too wide by itself.
const longString = 60

// checkWidth checks the columns of all lines, a tab counting as one. Lines with a raw string or a long
// one do not count, as such strings are better not broken, nor does the output of examples.
func (r *repository) checkWidth(f *file) {
	long := make(map[int]bool)
	mark := func(n ast.Node) {
		first, last := r.lines(n)
		for line := first; line <= last; line++ {
			long[line] = true
		}
	}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		if s, ok := n.(*ast.BasicLit); ok && s.Kind == token.STRING && (s.Value[0] == '`' || len(s.Value) > longString) {
			mark(s)
		}
		return true
	})
	for _, group := range f.syntax.Comments {
		if strings.Contains(strings.ToLower(group.Text()), "output:") {
			mark(group)
		}
	}
	for i, line := range strings.Split(f.content, "\n") {
		have := utf8.RuneCountInString(line)
		if have > columnsMax && !long[i+1] && !strings.HasPrefix(line, "//go:") {
			r.report(fmt.Sprintf("%s:%d", f.name, i+1), "%d columns, at most %d are allowed", have, columnsMax)
		}
	}
}
