package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// A repository is the parsed source of all packages.
type repository struct {
	positions *token.FileSet
	packages  []*pkg // in the order of the walk
	texts     []text // all text files, including Go files
}

// A pkg is the Go files of one folder.
type pkg struct {
	dir   string // from the root of the repository, with slashes
	files []*file
}

// A file is one parsed Go file.
type file struct {
	name   string // without the folder
	lines  int
	widest int // columns of the widest line without a long string
	isTest bool
	syntax *ast.File
}

// A text is the content of one file.
type text struct {
	name    string // path from the root
	content string
}

// read parses all Go files of a file system, which is the repository's root. It skips folders
// that do not belong to the source: hidden ones (except .ci), testdata, build output, and results
// of benchmarks.
func read(root fs.FS) (*repository, error) {
	r := &repository{positions: token.NewFileSet()}
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && passedOver(name):
			return fs.SkipDir
		case entry.IsDir() || !readable(name):
			return nil
		}
		content, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		return r.add(name, string(content))
	})
	if err != nil {
		return nil, fmt.Errorf("read the source: %w", err)
	}
	return r, nil
}

// passedOver reports whether a folder does not belong to the source.
func passedOver(dir string) bool {
	base := path.Base(dir)
	return base == "testdata" || dir == "bin" || dir == "bench/results" ||
		strings.HasPrefix(base, ".") && base != ".ci" || strings.HasPrefix(base, "_")
}

// readable reports whether a file is a text that is checked.
func readable(name string) bool {
	base := path.Base(name)
	return slices.Contains([]string{".go", ".md", ".sh", ".yml", ".yaml"}, path.Ext(name)) ||
		base == "Makefile" || strings.HasPrefix(base, "Dockerfile") || path.Dir(name) == ".ci"
}

// add adds one file.
func (r *repository) add(name, content string) error {
	r.texts = append(r.texts, text{name, content})
	if path.Ext(name) != ".go" {
		return nil
	}
	syntax, err := parser.ParseFile(r.positions, name, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	p := r.pkg(path.Dir(name))
	p.files = append(p.files, &file{
		name: path.Base(name), syntax: syntax, lines: strings.Count(content, "\n"),
		widest: r.widest(syntax, content), isTest: strings.HasSuffix(name, "_test.go"),
	})
	return nil
}

// longString is the length from which a string makes its line too wide by itself.
const longString = 60

// widest returns the columns of the widest line, a tab counting as one. Lines with a raw string or a
// long one do not count, as such strings are better not broken, nor does the output of examples.
func (r *repository) widest(syntax *ast.File, content string) (most int) {
	long := make(map[int]bool)
	mark := func(n ast.Node) {
		for line := r.positions.Position(n.Pos()).Line; line <= r.positions.Position(n.End()).Line; line++ {
			long[line] = true
		}
	}
	ast.Inspect(syntax, func(n ast.Node) bool {
		if s, ok := n.(*ast.BasicLit); ok && s.Kind == token.STRING && (s.Value[0] == '`' || len(s.Value) > longString) {
			mark(s)
		}
		return true
	})
	for _, group := range syntax.Comments {
		if text := strings.ToLower(group.Text()); strings.Contains(text, "output:") { // of an example
			mark(group)
		}
	}
	for i, line := range strings.Split(content, "\n") {
		if !long[i+1] && !strings.HasPrefix(line, "//go:") {
			most = max(most, utf8.RuneCountInString(line))
		}
	}
	return most
}

// pkg returns the package in dir, and adds it if it is new.
func (r *repository) pkg(dir string) *pkg {
	for _, p := range r.packages {
		if p.dir == dir {
			return p
		}
	}
	p := &pkg{dir: dir}
	r.packages = append(r.packages, p)
	return p
}

// code returns the files of p that are not tests.
func (p *pkg) code() []*file {
	var files []*file
	for _, f := range p.files {
		if !f.isTest {
			files = append(files, f)
		}
	}
	return files
}

// functions returns the functions and methods that f declares.
func (f *file) functions() (all []*ast.FuncDecl) {
	for _, declared := range f.syntax.Decls {
		if function, ok := declared.(*ast.FuncDecl); ok {
			all = append(all, function)
		}
	}
	return all
}
