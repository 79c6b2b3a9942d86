package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// A repository is the source of all packages, and the findings about it.
type repository struct {
	positions *token.FileSet
	files     []*file            // all that are checked
	packages  map[string][]*file // by folder, the Go files that are not tests
	folders   map[string]bool    // all that are not passed over
	findings  []string           // in the form of compiler errors
}

// A file is one text file.
type file struct {
	name    string // path from the root, with slashes
	content string
	syntax  *ast.File // nil: it is not Go
}

// passedOver matches folders that do not belong to the source: testdata, build output, results of
// benchmarks and hidden ones, except .ci.
var passedOver = regexp.MustCompile(`^(bin|bench/results)$|(^|/)(testdata|_[^/]*|\.[^/]+)$`)

// readable matches the files that are checked.
var readable = regexp.MustCompile(`\.(go|md|sh|ya?ml)$|(^|/)(Makefile|Dockerfile[^/]*)$|^\.ci/[^/]+$`)

// read parses all Go files of a file system, which is the repository's root.
func read(root fs.FS) (*repository, error) {
	r := &repository{
		positions: token.NewFileSet(), packages: make(map[string][]*file), folders: make(map[string]bool),
	}
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != ".ci" && passedOver.MatchString(name):
			return fs.SkipDir
		case entry.IsDir():
			r.folders[name] = true
			return nil
		case !readable.MatchString(name):
			return nil
		}
		content, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		return r.add(&file{name: name, content: string(content)})
	})
	if err != nil {
		return nil, fmt.Errorf("read the source: %w", err)
	}
	return r, nil
}

// add adds one file.
func (r *repository) add(f *file) (err error) {
	r.files = append(r.files, f)
	if path.Ext(f.name) != ".go" {
		return nil
	}
	f.syntax, err = parser.ParseFile(r.positions, f.name, f.content, parser.ParseComments|parser.SkipObjectResolution)
	if !f.isTest() {
		r.packages[path.Dir(f.name)] = append(r.packages[path.Dir(f.name)], f)
	}
	return err
}

// isTest reports whether f is compiled for tests only.
func (f *file) isTest() bool { return strings.HasSuffix(f.name, "_test.go") }

// report adds a finding about a file or a package as a whole.
func (r *repository) report(place, format string, args ...any) {
	r.findings = append(r.findings, place+": "+fmt.Sprintf(format, args...))
}

// reportAt adds a finding about the line of n.
func (r *repository) reportAt(n ast.Node, format string, args ...any) {
	p := r.positions.Position(n.Pos())
	r.report(fmt.Sprintf("%s:%d", p.Filename, p.Line), format, args...)
}

// check runs all checks, and returns the findings. places are paths on this machine that no file
// may contain.
func (r *repository) check(places []string) []string {
	for dir, files := range r.packages {
		r.checkPackage(dir, files)
	}
	for _, f := range r.files {
		r.checkText(f, places)
		if f.syntax != nil {
			r.checkReferences(f)
			r.checkShape(f)
		}
	}
	slices.Sort(r.findings)
	return r.findings
}
