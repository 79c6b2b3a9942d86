package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"weir/internal/test/testkit"
)

const security = "../SECURITY.md"

// A source holds what the tables of SECURITY.md may name.
type source struct {
	consts, funcs map[string]bool // as in proxy/wire.waitersMax; functions of tests only
	metrics       map[string]bool
}

// readSource parses the proxy and what it is made of.
func readSource(t *testing.T) *source {
	s := &source{make(map[string]bool), make(map[string]bool), make(map[string]bool)}
	for _, root := range []string{".", "../internal"} {
		err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".go") {
				s.read(t, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *source) read(t *testing.T, path string) {
	dir := strings.TrimPrefix(filepath.ToSlash(filepath.Join("proxy", filepath.Dir(path))), "../")
	test := strings.HasSuffix(path, "_test.go") || strings.HasSuffix(dir, "test")
	for _, d := range testkit.Must(parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution))(t).Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			s.funcs[dir+"."+d.Name.Name] = s.funcs[dir+"."+d.Name.Name] || test && d.Recv == nil
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok && d.Tok == token.CONST && !test {
					for _, name := range v.Names {
						s.consts[dir+"."+name.Name] = true
					}
				}
			}
		}
		if !test {
			ast.Inspect(d, s.metric)
		}
	}
}

// metric notes the name of a metric in a literal, which may have labels.
func (s *source) metric(n ast.Node) bool {
	if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
		text, _ := strconv.Unquote(lit.Value)
		name, _, _ := strings.Cut(text, "{")
		s.metrics[name] = true
	}
	return true
}

// settings returns the settings of the proxy with their meanings, as -help prints them.
func settings(t *testing.T) map[string]string {
	help, stderr := testkit.RequireExit(t, program(t, nil, "-help"), 0)
	all := make(map[string]string)
	for _, m := range regexp.MustCompile(`(?m)^([A-Z][A-Z0-9_]+) +-(\S+) +\S+ +(.*)$`).FindAllStringSubmatch(help, -1) {
		if all[m[1]] = m[3]; strings.ToUpper(strings.ReplaceAll(m[2], "-", "_")) != m[1] {
			t.Errorf("the flag of %s is -%s", m[1], m[2])
		}
	}
	if len(all) < 100 || stderr != "" {
		t.Fatalf("-help has %d settings: the test does not read them\n%s", len(all), stderr)
	}
	return all
}

// bounds matches the names and meanings of settings that bound something.
var (
	boundName    = regexp.MustCompile(`(^|_)(MAX|SHARE|BUDGET)(_|$)|_RATE$|_CONNECTIONS$`)
	boundMeaning = regexp.MustCompile(`^maximum |; beyond: |^(upper|lower) bound `)
)

// boundConst matches the names of constants that bound something.
var boundConst = regexp.MustCompile(`(^|[a-z])(Max|Most)($|[A-Z])|^(max|most)($|[A-Z])`)

// Every constant that bounds something is in a table of SECURITY.md, or the list says why no client
// can take from others what it bounds. Nothing in the list is out of date.
func TestBoundsAreKnown(t *testing.T) {
	why, used := make(map[string]string), make(map[string]bool)
	for line := range strings.Lines(string(testkit.Must(os.ReadFile("testdata/bounds.txt"))(t))) {
		if name, reason, _ := strings.Cut(strings.TrimSpace(line), " "); name != "" && name != "#" {
			why[name] = strings.TrimSpace(reason)
		}
	}
	for _, mark := range []string{"shared", "undivided"} {
		for _, row := range testkit.TableRows(t, security, mark) {
			for _, name := range testkit.BackquotedWords(row[1]) {
				why[name], used[name] = row[0], true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(readSource(t).consts)) {
		if !boundConst.MatchString(name[strings.LastIndexByte(name, '.')+1:]) {
			continue
		}
		dir := name[:strings.LastIndexByte(name, '.')]
		if used[name], used[dir] = true, true; why[name] == "" && why[dir] == "" {
			t.Errorf("%s bounds something. If all clients share it, give each a share and a row in SECURITY.md; "+
				"otherwise say in testdata/bounds.txt what it bounds", name)
		}
		if why[name] != "" && why[dir] != "" {
			t.Errorf("testdata/bounds.txt has %s and its package", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(why)) {
		if !used[name] {
			t.Errorf("testdata/bounds.txt has %s, which is not there", name)
		}
	}
}

// Whoever adds something that all clients share, and that is bounded, says in SECURITY.md what the
// share of one client is, and which test proves it; or why one client cannot take it from others.
func TestSharesAreListed(t *testing.T) {
	src, known := readSource(t), settings(t)
	named := make(map[string]bool)
	isBound := func(row []string, cell string) {
		t.Helper()
		for _, word := range testkit.BackquotedWords(cell) {
			if _, setting := known[word]; !setting && !src.consts[word] {
				t.Errorf("%s: %s is neither a setting nor a constant", row[0], word)
			}
			named[word] = true
		}
	}
	for _, row := range testkit.TableRows(t, security, "shared") {
		if len(row) != 6 || slices.Contains(row, "") || len(testkit.BackquotedWords(row[1])) == 0 {
			t.Errorf("%s: the row must have six cells, and name its bound", row)
			continue
		}
		isBound(row, row[1])
		for i, in := range []map[string]bool{src.metrics, src.funcs} {
			for _, word := range testkit.BackquotedWords(row[4+i]) {
				if !in[word] {
					t.Errorf("%s: there is no %s %s", row[0], [...]string{"metric", "test"}[i], word)
				}
			}
			if len(testkit.BackquotedWords(row[4+i])) == 0 {
				t.Errorf("%s: no %s", row[0], [...]string{"metric", "test"}[i])
			}
		}
	}
	for _, row := range testkit.TableRows(t, security, "undivided") {
		isBound(row, row[1])
		for _, word := range testkit.BackquotedWords(row[2]) {
			if strings.HasPrefix(word, "ratelimiter_") && !src.metrics[word] {
				t.Errorf("%s: there is no metric %s", row[0], word)
			}
		}
	}
	for _, row := range testkit.TableRows(t, security, "single") {
		isBound(row, row[0])
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if !named[name] && (boundName.MatchString(name) || boundMeaning.MatchString(known[name])) {
			t.Errorf("%s bounds something (%s): a table of SECURITY.md must say for whom", name, known[name])
		}
	}
}
