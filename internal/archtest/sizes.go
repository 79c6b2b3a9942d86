package archtest

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strings"
)

// checkComment checks that a package has a package comment in the form of godoc: "Package name
// …", and for a program "Name …" or "Command name …".
func (f *findings) checkComment(p *pkg) {
	name := p.code()[0].syntax.Name.Name
	for _, source := range p.code() {
		if source.syntax.Doc == nil {
			continue
		}
		words := strings.Fields(source.syntax.Doc.Text())
		if name == "main" || len(words) > 1 && words[0] == "Package" && words[1] == name {
			return
		}
		f.of(p.dir+"/"+source.name, "the package comment does not begin with %q", "Package "+name)
		return
	}
	f.of(p.dir, "the package has no comment")
}

// checkSizes checks the bounds on files, functions and mains.
func (f *findings) checkSizes(p *pkg) {
	for _, source := range p.code() {
		name, limit := p.dir+"/"+source.name, fileLinesMax
		if source.syntax.Name.Name == "main" && source.name == "main.go" {
			limit = mainLinesMax
		}
		if tooLarge[name] == "" && source.lines > limit {
			f.of(name, "the file has %d lines, at most %d are allowed", source.lines, limit)
		}
		p.functions(source, func(p *pkg, function *ast.FuncDecl) {
			if n := f.lines(function); n > functionLinesMax && tooLarge[functionName(p.dir, function)] == "" {
				f.at(function.Pos(), "the function %s has %d lines, at most %d are allowed", function.Name.Name, n, functionLinesMax)
			}
		})
	}
}

// lines returns the number of lines of a function, from func to the last brace.
func (f *findings) lines(function *ast.FuncDecl) int {
	first := f.repository.positions.Position(function.Pos()).Line
	return f.repository.positions.Position(function.End()).Line - first + 1
}

// functionName returns the name of a function in the form of tooLarge.
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

// checkExceptions checks that everything listed as too large still is: an exception that is no
// longer needed must be removed.
func (f *findings) checkExceptions(exceptions map[string]string) {
	large := make(map[string]bool)
	for _, p := range f.repository.packages {
		for _, source := range p.code() {
			large[p.dir+"/"+source.name] = source.lines > fileLinesMax
		}
	}
	f.repository.functions(func(p *pkg, function *ast.FuncDecl) {
		large[functionName(p.dir, function)] = f.lines(function) > functionLinesMax
	})
	for _, name := range slices.Sorted(maps.Keys(exceptions)) {
		if !large[name] {
			f.of("internal/archtest/layers.go", "%s is not too large: take it off the list of exceptions", name)
		}
		if exceptions[name] == "" {
			f.of("internal/archtest/layers.go", "the exception for %s has no reason", name)
		}
	}
}

// checkTexts checks that nothing is left unfinished and that no file contains a path of this
// machine.
func (f *findings) checkTexts(places []string) {
	for _, t := range f.repository.texts {
		for i, line := range strings.Split(t.content, "\n") {
			f.checkLine(fmt.Sprintf("%s:%d", t.name, i+1), line, places)
		}
	}
}

// checkLine is checkTexts for one line.
func (f *findings) checkLine(at, line string, places []string) {
	for _, word := range []string{"TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK"} { // split, because this file is checked too
		if slices.Contains(strings.FieldsFunc(line, notLetter), word) {
			f.of(at, "%s: finish it or leave it out", word)
		}
	}
	for _, path := range places {
		if strings.Contains(line, path) {
			f.of(at, "%s is a place on one machine", path)
		}
	}
}

// notLetter reports whether r separates words.
func notLetter(r rune) bool {
	return (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
}
