package archtest

import (
	"errors"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
)

// checkPurity checks that the code of a pure package reads no clock,
// starts no goroutine and has no init.
func (f *findings) checkPurity(p *pkg, info *types.Info) {
	for _, source := range p.code() {
		ast.Inspect(source.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				f.at(n.Pos(), "a pure package must not start goroutines")
			case *ast.FuncDecl:
				if n.Recv == nil && n.Name.Name == "init" {
					f.at(n.Pos(), "a pure package has no init functions")
				}
			case *ast.SelectorExpr:
				f.checkSelector(n, info.Uses)
			}
			return true
		})
	}
}

// checkSelector checks one x.Name: functions that read the clock, and methods named Go, by which
// sync.WaitGroup and similar types start goroutines.
func (f *findings) checkSelector(n *ast.SelectorExpr, uses map[*ast.Ident]types.Object) {
	if n.Sel.Name == "Go" {
		f.at(n.Pos(), "a pure package must not start goroutines")
	}
	x, ok := n.X.(*ast.Ident)
	if !ok {
		return
	}
	name, ok := uses[x].(*types.PkgName)
	if ok && name.Imported().Path() == "time" && slices.Contains(clock, n.Sel.Name) {
		f.at(n.Pos(), "a pure package must not use the clock: time.%s", n.Sel.Name)
	}
}

// resolve determines what the identifiers of p's code refer to. Imports are not loaded, and
// errors caused by that are ignored: names of the package itself, of locals and of imports are
// resolved nevertheless.
func (f *findings) resolve(p *pkg) *types.Info {
	info := &types.Info{
		Uses: make(map[*ast.Ident]types.Object),
		Defs: make(map[*ast.Ident]types.Object),
	}
	var files []*ast.File
	for _, source := range p.code() {
		files = append(files, source.syntax)
	}
	config := types.Config{Importer: noImporter{}, Error: func(error) {}}
	_, _ = config.Check(modulePath+"/"+p.dir, f.repository.positions, files, info)
	return info
}

// noImporter loads nothing.
type noImporter struct{}

// Import implements types.Importer.
func (noImporter) Import(string) (*types.Package, error) { return nil, errors.New("not loaded") }

// checkVariables checks that the package-level variables of a pure package are tables
// and errors that are never changed.
func (f *findings) checkVariables(p *pkg, info *types.Info) {
	changed := changes(p, info)
	for _, source := range p.code() {
		for _, declared := range source.syntax.Decls {
			group, ok := declared.(*ast.GenDecl)
			if !ok || group.Tok != token.VAR {
				continue
			}
			for _, spec := range group.Specs {
				f.checkVariable(spec.(*ast.ValueSpec), info, changed)
			}
		}
	}
}

// checkVariable checks the variables of one declaration.
func (f *findings) checkVariable(spec *ast.ValueSpec, info *types.Info, changed map[types.Object]token.Pos) {
	for i, name := range spec.Names {
		if name.Name == "_" {
			continue
		}
		if why := mutable(spec.Type, valueOf(spec, i), info); why != "" {
			f.at(name.Pos(), "a pure package keeps nothing in package-level variables: %s %s", name.Name, why)
		}
		if pos, ok := changed[info.Defs[name]]; ok {
			f.at(pos, "a pure package keeps nothing in package-level variables: %s is changed here", name.Name)
		}
	}
}

// valueOf returns the expression that initializes the i-th name of a declaration: its own value,
// or the one call that initializes all names. It returns nil if there is none.
func valueOf(spec *ast.ValueSpec, i int) ast.Expr {
	switch {
	case len(spec.Values) == 1:
		return spec.Values[0]
	case i < len(spec.Values):
		return spec.Values[i]
	}
	return nil
}

// mutable returns which part of its declaration shows that a variable is meant to be changed, or
// "".
func mutable(typ, value ast.Expr, info *types.Info) string {
	if ofSync(typ, info) {
		return "is there to be changed"
	}
	switch v := value.(type) {
	case nil:
		return "has no value yet"
	case *ast.FuncLit:
		return "is a hook"
	case *ast.CompositeLit:
		if ofSync(v.Type, info) {
			return "is there to be changed"
		}
	case *ast.UnaryExpr:
		return mutable(nil, v.X, info)
	case *ast.CallExpr:
		if called, ok := v.Fun.(*ast.Ident); ok && (called.Name == "make" || called.Name == "new") {
			return "is there to be filled"
		}
	}
	return ""
}

// ofSync reports whether a type is one of the packages sync and sync/atomic.
func ofSync(typ ast.Expr, info *types.Info) bool {
	if generic, ok := typ.(*ast.IndexExpr); ok { // atomic.Pointer[T]
		typ = generic.X
	}
	selector, ok := typ.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := selector.X.(*ast.Ident)
	if !ok {
		return false
	}
	name, ok := info.Uses[x].(*types.PkgName)
	return ok && below(name.Imported().Path(), "sync")
}

// changes finds the first place where each variable is assigned to, as a whole
// or in part.
func changes(p *pkg, info *types.Info) map[types.Object]token.Pos {
	changed := make(map[types.Object]token.Pos)
	note := func(target ast.Expr) {
		if id := base(target); id != nil && info.Uses[id] != nil {
			if _, before := changed[info.Uses[id]]; !before {
				changed[info.Uses[id]] = id.Pos()
			}
		}
	}
	for _, source := range p.code() {
		ast.Inspect(source.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for _, target := range n.Lhs {
					note(target)
				}
			case *ast.IncDecStmt:
				note(n.X)
			case *ast.RangeStmt:
				if n.Tok == token.ASSIGN {
					note(n.Key)
					note(n.Value)
				}
			case *ast.CallExpr:
				called, ok := n.Fun.(*ast.Ident)
				if ok && len(n.Args) > 0 && slices.Contains([]string{"clear", "copy", "delete"}, called.Name) {
					note(n.Args[0])
				}
			}
			return true
		})
	}
	return changed
}

// base returns the variable that an expression is a part of, or nil.
func base(x ast.Expr) *ast.Ident {
	for {
		switch e := x.(type) {
		case *ast.Ident:
			return e
		case *ast.ParenExpr:
			x = e.X
		case *ast.IndexExpr:
			x = e.X
		case *ast.SliceExpr:
			x = e.X
		case *ast.StarExpr:
			x = e.X
		case *ast.SelectorExpr:
			x = e.X
		default:
			return nil
		}
	}
}
