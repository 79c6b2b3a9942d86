package archtest

import (
	"maps"
	"slices"
	"strings"
)

// checkImports checks the directions of the imports of p's code; tests may import anything that
// they need.
func (f *findings) checkImports(p *pkg, own layer) {
	for _, source := range p.code() {
		for _, spec := range source.syntax.Imports {
			if why := importFault(p.dir, own, strings.Trim(spec.Path.Value, "\"`")); why != "" {
				f.at(spec.Pos(), "%s", why)
			}
		}
	}
}

// importFault returns why the package in dir must not import path, or "" if it may.
func importFault(dir string, own layer, path string) string {
	for _, guarded := range slices.Sorted(maps.Keys(onlyIn)) {
		if below(path, guarded) && !slices.Contains(onlyIn[guarded], dir) {
			return guarded + " is imported by " + oneOf(onlyIn[guarded]) + " only"
		}
	}
	if other, ours := strings.CutPrefix(path, modulePath+"/"); ours {
		return ownImportFault(dir, own, other)
	}
	if own <= machines && slices.ContainsFunc(notBelowRim, func(banned string) bool {
		return path == banned || banned == "golang.org/x/sys" && below(path, banned)
	}) {
		return own.String() + " must not import " + path
	}
	return ""
}

// ownImportFault is importFault for the package in the folder other of this module.
func ownImportFault(dir string, own layer, other string) string {
	theirs, known := layerOf(other)
	switch {
	case !known:
		return other + " is not in the table of layers: add it to internal/test/archtest/layers.go"
	case program(other) != "" && program(other) != program(dir) && !measured(dir, theirs):
		return "the program " + program(other) + " must not be imported by other programs"
	case testSupport(other) && !testSupport(dir):
		return other + " is for tests"
	case theirs > own:
		return own.String() + " must not import " + theirs.String()
	case own == pure && theirs == pure && !slices.Contains(sideways[dir], other):
		return own.String() + " must not import sideways; exceptions are listed in internal/test/archtest/layers.go"
	}
	return ""
}

// measured reports whether the package in dir may import a package of another program in the
// layer theirs: experiments use the real decision code.
func measured(dir string, theirs layer) bool { return program(dir) == "bench" && theirs <= machines }

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
