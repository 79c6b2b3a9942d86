package archtest

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"
)

// fileOpener is the only package that may create files or change their modes, because it does not
// follow the symbolic links of other users.
const fileOpener = "internal/program/ownfile"

// creating are the functions of package os that follow any link.
var creating = []string{"OpenFile", "Create", "WriteFile", "Chmod", "Chown", "Truncate"}

// checkFiles checks that the code of a program creates files with fileOpener only. Experiments and
// support for tests write into folders of their own.
func (f *findings) checkFiles(p *pkg, info *types.Info) {
	if p.dir == fileOpener || testSupport(p.dir) || program(p.dir) == "bench" || strings.HasPrefix(p.dir, "deploy") {
		return
	}
	for _, source := range p.code() {
		ast.Inspect(source.syntax, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok || !slices.Contains(creating, selector.Sel.Name) {
				return true
			}
			if x, ok := selector.X.(*ast.Ident); ok {
				if name, ok := info.Uses[x].(*types.PkgName); ok && name.Imported().Path() == "os" {
					f.at(n.Pos(), "os.%s follows the links of other users: use %s", selector.Sel.Name, fileOpener)
				}
			}
			return true
		})
	}
}
