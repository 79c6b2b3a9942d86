package archtest

import (
	"go/ast"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// checkShape checks the bounds in shapeBounds: the lines of a package, and the parameters and
// nesting of its functions.
func (f *findings) checkShape(allowed map[string]int) {
	have := make(map[string]int)
	for _, p := range f.repository.packages {
		for _, source := range p.code() {
			have["lines "+p.dir] += source.lines
		}
	}
	f.repository.functions(func(p *pkg, function *ast.FuncDecl) {
		name := functionName(p.dir, function)
		have["parameters "+name] = parameters(function.Type)
		if function.Body != nil {
			have["nesting "+name] = nesting(function.Body, 0)
		}
	})
	for _, name := range slices.Sorted(maps.Keys(have)) {
		kind, place, _ := strings.Cut(name, " ")
		bound := max(shapeBounds[kind], allowed[name])
		if have[name] > bound {
			f.of(place, "%d %s, at most %d are allowed", have[name], kindNames[kind], bound)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(allowed)) {
		kind, _, _ := strings.Cut(name, " ")
		if slack := allowed[name] - have[name]; slack > shapeSlack[kind] || have[name] <= shapeBounds[kind] {
			f.of("internal/archtest/shrinking.go", "%q has shrunk to %d: lower its number or take it off the list", name, have[name])
		}
	}
}

// parameters counts the parameters of a function, without the receiver.
func parameters(t *ast.FuncType) (n int) {
	for _, field := range t.Params.List {
		n += max(1, len(field.Names))
	}
	return n
}

// nesting returns how many control statements enclose the innermost one. An else if is not deeper
// than its if, and a function literal begins at 0.
func nesting(node ast.Node, depth int) (deepest int) {
	deepest = depth
	ast.Inspect(node, func(n ast.Node) bool {
		inner := depth + 1
		var parts []ast.Node
		switch s := n.(type) {
		case *ast.FuncLit:
			deepest = max(deepest, nesting(s.Body, 0))
			return false
		case *ast.IfStmt:
			parts = []ast.Node{s.Body}
			if s.Else != nil {
				elseDepth := inner
				if _, chain := s.Else.(*ast.IfStmt); chain {
					elseDepth = depth
				}
				deepest = max(deepest, nesting(s.Else, elseDepth))
			}
		case *ast.ForStmt:
			parts = []ast.Node{s.Body}
		case *ast.RangeStmt:
			parts = []ast.Node{s.Body}
		case *ast.SwitchStmt:
			parts = []ast.Node{s.Body}
		case *ast.TypeSwitchStmt:
			parts = []ast.Node{s.Body}
		case *ast.SelectStmt:
			parts = []ast.Node{s.Body}
		default:
			return true
		}
		for _, part := range parts {
			deepest = max(deepest, nesting(part, inner))
		}
		return false
	})
	return deepest
}

// dangling matches references in comments to documents that their reader does not have.
var dangling = regexp.MustCompile(`(?i)\bgoal [0-9]|\bcontracts(\.md)? (say|says|has|have|want|ask)|\bas contracts\b|\bthe issue\b`)

// checkReferences checks that comments are true without other documents.
func (f *findings) checkReferences() {
	var comments []*ast.CommentGroup
	for _, p := range f.repository.packages {
		for _, source := range p.files {
			comments = append(comments, source.syntax.Comments...)
		}
	}
	for _, group := range comments {
		if found := dangling.FindString(group.Text()); found != "" {
			f.at(group.Pos(), "the comment refers to %q, which its reader does not have", found)
		}
	}
}

// checkDocument checks that the packages in ARCHITECTURE.md's table of folders exist. A name
// without a slash has the same parent as the one before it.
func (f *findings) checkDocument() {
	dirs := make(map[string]bool)
	for _, p := range f.repository.packages {
		for dir := p.dir; dir != "."; dir = path.Dir(dir) {
			dirs[dir] = true
		}
	}
	for _, t := range f.repository.texts {
		if t.name != "ARCHITECTURE.md" {
			continue
		}
		_, table, _ := strings.Cut(t.content, "\n## Folders\n")
		table, _, _ = strings.Cut(table, "\n## ")
		for line := range strings.Lines(table) {
			cells := strings.Split(line, "|")
			if len(cells) < 3 {
				continue
			}
			for _, name := range unknown(cells[1], dirs) {
				f.of(t.name, "the table of folders has %s, which does not exist", name)
			}
		}
	}
}

// unknown returns the folders named in a cell that do not exist.
func unknown(cell string, dirs map[string]bool) (names []string) {
	parent := ""
	for i, name := range strings.Split(cell, "`") {
		if i%2 == 0 { // between two names
			continue
		}
		if !strings.Contains(name, "/") && parent != "" {
			name = path.Join(parent, name)
		}
		parent = path.Dir(name)
		if !dirs[name] {
			names = append(names, name)
		}
	}
	return names
}
