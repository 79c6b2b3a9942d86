package archtest

import (
	"maps"
	"slices"
	"strings"
)

// checkImports checks the directions of the imports of p's code; tests may import anything that
// they need.
func (f *findings) checkImports(p *pkg) {
	for _, source := range p.code() {
		for _, spec := range source.syntax.Imports {
			if why := importFault(p.dir, strings.Trim(spec.Path.Value, "\"`")); why != "" {
				f.at(spec.Pos(), "%s", why)
			}
		}
	}
}

// importFault returns why the package in dir must not import path, or "" if it may.
func importFault(dir string, path string) string {
	for _, guarded := range slices.Sorted(maps.Keys(onlyIn)) {
		if below(path, guarded) && !slices.Contains(onlyIn[guarded], dir) {
			return guarded + " is imported by " + oneOf(onlyIn[guarded]) + " only"
		}
	}
	if other, ours := strings.CutPrefix(path, modulePath+"/"); ours {
		return ownImportFault(dir, other)
	}
	if pure(dir) && slices.ContainsFunc(notPure, func(banned string) bool {
		return path == banned || banned == "golang.org/x/sys" && below(path, banned)
	}) {
		return "a pure package must not import " + path
	}
	return ""
}

// ownImportFault is importFault for the package in the folder other of this module.
func ownImportFault(dir, other string) string {
	switch {
	case folder(other) < 0:
		return other + " is in none of the folders: add its folder to internal/test/archtest/layers.go"
	case program(other) != "" && program(other) != program(dir) && !(program(dir) == "bench" && pure(other)):
		return "the program " + program(other) + " must not be imported by other programs"
	case testSupport(other) && !testSupport(dir):
		return other + " is for tests"
	case !testSupport(dir) && folder(other) < folder(dir):
		return order[folder(dir)] + " must not import " + order[folder(other)] + ", which is above it"
	case pure(dir) && !pure(other):
		return "a pure package must not import " + other + ", which is in the rim"
	}
	return ""
}

// below reports whether an import path is root or below it.
func below(path, root string) bool {
	return path == root || strings.HasPrefix(path, root+"/")
}

// oneOf lists packages for messages.
func oneOf(dirs []string) string {
	if len(dirs) == 0 {
		return "no package"
	}
	return strings.Join(dirs, ", ")
}
