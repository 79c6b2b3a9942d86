package archtest

import (
	"cmp"
	"fmt"
	"go/token"
	"slices"
)

// A finding is one place where a rule is violated, with a sentence about it.
type finding struct {
	place    string // "file:line", "file" or a package's folder
	sentence string
}

// String returns the finding in the form of compiler errors.
func (f finding) String() string { return f.place + ": " + f.sentence }

// findings collects the results of the checks.
type findings struct {
	repository *repository
	list       []finding
}

// at adds a finding at a position.
func (f *findings) at(pos token.Pos, format string, args ...any) {
	p := f.repository.positions.Position(pos)
	f.list = append(f.list, finding{fmt.Sprintf("%s:%d", p.Filename, p.Line), fmt.Sprintf(format, args...)})
}

// of adds a finding about a file or a package as a whole.
func (f *findings) of(place, format string, args ...any) {
	f.list = append(f.list, finding{place, fmt.Sprintf(format, args...)})
}

// check runs all checks. places are paths on this machine that no file may contain. The
// findings are sorted by place.
func check(r *repository, places []string) []finding {
	f := &findings{repository: r}
	for _, p := range r.packages {
		f.checkPackage(p)
	}
	f.checkShape()
	f.checkReferences()
	f.checkDocument()
	f.checkTexts(places)
	slices.SortStableFunc(f.list, func(a, b finding) int { return cmp.Compare(a.place, b.place) })
	return f.list
}

// checkPackage runs the checks of one package.
func (f *findings) checkPackage(p *pkg) {
	if len(p.code()) == 0 {
		return // tests in a folder without a package
	}
	f.checkComment(p)
	if folder(p.dir) < 0 {
		f.of(p.dir, "the package is in none of the folders: add its folder to internal/test/archtest/layers.go")
		return
	}
	f.checkImports(p)
	info := f.resolve(p)
	f.checkFiles(p, info)
	if pure(p.dir) {
		f.checkPurity(p, info)
		f.checkVariables(p, info)
	}
}
