package archtest

import (
	"go/ast"
	"maps"
	"slices"
	"strings"
)

// shapeBounds are the bounds on the lines of a file, of a main.go and of a function, on the parameters
// of a function, on the nesting of its control statements, and on the columns of a line without a
// string that is too long by itself. A package has no bound: it has one idea, and as many files as that
// needs.
var shapeBounds = map[string]int{"file": 400, "main": 150, "function": 60, "parameters": 5, "nesting": 3, "width": 120}

// kindNames names in findings what the bounds count.
var kindNames = map[string]string{
	"file": "lines in a file", "main": "lines in main.go", "function": "lines in a function",
	"parameters": "parameters", "nesting": "levels of nesting", "width": "columns",
}

// checkShape checks the bounds in shapeBounds.
func (f *findings) checkShape() {
	have := f.shapes()
	for _, name := range slices.Sorted(maps.Keys(have)) {
		kind, place, _ := strings.Cut(name, " ")
		if have[name] > shapeBounds[kind] {
			f.of(place, "%d %s, at most %d are allowed", have[name], kindNames[kind], shapeBounds[kind])
		}
	}
}

// shapes returns everything that has a bound, by kind and name, such as "function proxy/limit.New".
func (f *findings) shapes() map[string]int {
	have := make(map[string]int)
	for _, p := range f.repository.packages {
		for _, source := range p.files {
			have["width "+p.dir+"/"+source.name] = source.widest
		}
		for _, source := range p.code() {
			kind := "file "
			if source.syntax.Name.Name == "main" && source.name == "main.go" {
				kind = "main "
			}
			have[kind+p.dir+"/"+source.name] = source.lines
			for _, function := range source.functions() {
				name := functionName(p.dir, function)
				have["function "+name] = f.lines(function)
				have["parameters "+name] = function.Type.Params.NumFields()
				have["nesting "+name] = nesting(function)
			}
		}
	}
	return have
}

// lines returns the number of lines of a function, from func to the last brace.
func (f *findings) lines(function *ast.FuncDecl) int {
	first := f.repository.positions.Position(function.Pos()).Line
	return f.repository.positions.Position(function.End()).Line - first + 1
}

// functionName returns the name of a function in the form of shapes.
func functionName(dir string, function *ast.FuncDecl) string {
	if function.Recv == nil || len(function.Recv.List) == 0 {
		return dir + "." + function.Name.Name
	}
	receiver := function.Recv.List[0].Type
	if id := base(receiver); id != nil {
		return dir + "." + id.Name + "." + function.Name.Name
	}
	return dir + "." + function.Name.Name
}

// nesting returns how many control statements enclose the innermost one, itself included. An else
// if is not deeper than its if, and a function literal begins at 0.
func nesting(function *ast.FuncDecl) (deepest int) {
	ast.PreorderStack(function, nil, func(n ast.Node, enclosing []ast.Node) bool {
		if !controls(n) {
			return true
		}
		depth := 0
		var parent ast.Node
		for _, n := range append(enclosing, n) {
			outer, inIf := parent.(*ast.IfStmt)
			switch _, literal := n.(*ast.FuncLit); {
			case literal:
				depth = 0
			case controls(n) && !(inIf && outer.Else == n):
				depth++
			}
			parent = n
		}
		deepest = max(deepest, depth)
		return true
	})
	return deepest
}

// controls reports whether n is a control statement.
func controls(n ast.Node) bool {
	switch n.(type) {
	case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt, *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt:
		return true
	}
	return false
}
