package archtest

import (
	"errors"
	"go/ast"
	"go/types"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// checkPackage checks the code of the package in dir; tests may import and do what they need.
func (r *repository) checkPackage(dir string, files []*file) {
	if files[0].syntax.Name.Name == "main" &&
		!slices.ContainsFunc(files, func(f *file) bool { return f.syntax.Doc != nil }) {
		r.report(dir, "the program has no comment") // staticcheck demands those of packages
	}
	if folder(dir) < 0 {
		r.report(dir, "the package is in none of the folders: add its folder to internal/test/archtest/layers.go")
		return
	}
	info, pure := r.resolve(dir, files), pure(dir)
	for _, f := range files {
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if why := fault(dir, n, info); why != "" {
				r.reportAt(n, "%s", why)
			}
			if pure {
				r.checkVariables(n, info)
			}
			return true
		})
	}
}

// resolve determines what the identifiers of a package's code refer to. Imports are not loaded, and
// errors caused by that are ignored: names of the package itself, of locals and of imports are
// resolved nevertheless.
func (r *repository) resolve(dir string, files []*file) *types.Info {
	info := &types.Info{
		Uses: make(map[*ast.Ident]types.Object),
		Defs: make(map[*ast.Ident]types.Object),
	}
	var syntax []*ast.File
	for _, f := range files {
		syntax = append(syntax, f.syntax)
	}
	config := types.Config{Importer: noImporter{}, Error: func(error) {}}
	_, _ = config.Check(modulePath+"/"+dir, r.positions, syntax, info)
	return info
}

// noImporter loads nothing.
type noImporter struct{}

// Import implements types.Importer.
func (noImporter) Import(string) (*types.Package, error) { return nil, errors.New("not loaded") }

// fault returns why the package in dir must not contain n, or "" if it may.
func fault(dir string, n ast.Node, info *types.Info) string {
	switch n := n.(type) {
	case *ast.ImportSpec:
		return importFault(dir, strings.Trim(n.Path.Value, "\"`"))
	case *ast.FuncDecl:
		if n.Recv == nil && n.Name.Name == "init" && pure(dir) {
			return "a pure package has no init functions"
		}
	case *ast.GoStmt:
		if pure(dir) {
			return "a pure package must not start goroutines"
		}
	case *ast.SelectorExpr:
		return selectorFault(dir, n, info)
	}
	return ""
}

// selectorFault is fault for x.Name: functions of packages, and methods named Go, by which
// sync.WaitGroup and similar types start goroutines.
func selectorFault(dir string, n *ast.SelectorExpr, info *types.Info) string {
	name := ""
	if x, ok := n.X.(*ast.Ident); ok {
		if imported, ok := info.Uses[x].(*types.PkgName); ok {
			name = imported.Imported().Path() + "." + n.Sel.Name
		}
	}
	switch {
	case n.Sel.Name == "Go" && pure(dir):
		return "a pure package must not start goroutines"
	case slices.Contains(clock, name) && pure(dir):
		return "a pure package must not use the clock: " + name
	case slices.Contains(creating, name) && guardsFiles(dir):
		return name + " follows the links of other users: use " + fileOpener
	}
	return ""
}

// importFault returns why the package in dir must not import path, or "" if it may.
func importFault(dir, path string) string {
	for _, guarded := range slices.Sorted(maps.Keys(onlyIn)) {
		if below(path, guarded) && !slices.Contains(onlyIn[guarded], dir) {
			return guarded + " is imported by " + strings.Join(onlyIn[guarded], ", ") + " only"
		}
	}
	other, ours := strings.CutPrefix(path, modulePath+"/")
	switch {
	case !ours && pure(dir) && (slices.Contains(notPure, path) || below(path, "golang.org/x/sys")):
		return "a pure package must not import " + path
	case !ours:
		return ""
	case folder(other) < 0:
		return other + " is in none of the folders: add its folder to internal/test/archtest/layers.go"
	case program(other) != "" && program(other) != program(dir) && !(program(dir) == "bench" && pure(other)):
		return "the program " + program(other) + " must not be imported by other programs"
	case testSupport(dir):
		return ""
	case testSupport(other):
		return other + " is for tests"
	case folder(other) < folder(dir):
		return order[folder(dir)] + " must not import " + order[folder(other)] + ", which is above it"
	case pure(dir) && !pure(other):
		return "a pure package must not import " + other + ", which is in the rim"
	}
	return ""
}

// below reports whether an import path is root or below it.
func below(path, root string) bool { return path == root || strings.HasPrefix(path, root+"/") }

// mutable matches types and values, in the form of types.ExprString, that are there to be changed.
var mutable = regexp.MustCompile(`^[&*]?(sync|atomic)\.|^(make|new)\(|^\(func\(.* literal\)$`)

// checkVariables checks that n neither declares a package-level variable that is there to be
// changed nor changes one, as a whole or in part: they are tables and errors.
func (r *repository) checkVariables(n ast.Node, info *types.Info) {
	var changed []ast.Expr
	how := "is changed here"
	switch n := n.(type) {
	case *ast.ValueSpec:
		if n.Values == nil || slices.ContainsFunc(append(n.Values, n.Type), func(x ast.Expr) bool {
			return mutable.MatchString(types.ExprString(x))
		}) {
			changed, how = []ast.Expr{n.Names[0]}, "is there to be changed"
		}
	case *ast.AssignStmt:
		changed = n.Lhs
	case *ast.IncDecStmt:
		changed = []ast.Expr{n.X}
	case *ast.RangeStmt:
		changed = []ast.Expr{n.Key, n.Value}
	case *ast.CallExpr:
		if slices.Contains([]string{"clear", "copy", "delete"}, types.ExprString(n.Fun)) {
			changed = n.Args[:min(1, len(n.Args))]
		}
	}
	for _, x := range changed {
		if v, ok := info.ObjectOf(base(x)).(*types.Var); ok && v.Parent() == v.Pkg().Scope() {
			r.reportAt(x, "a pure package keeps nothing in package-level variables: %s %s", v.Name(), how)
		}
	}
}

// base returns the variable that an expression is a part of, which is the first name in it.
func base(x ast.Expr) (first *ast.Ident) {
	ast.Inspect(x, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && first == nil {
			first = id
		}
		return n != nil && first == nil
	})
	return first
}
