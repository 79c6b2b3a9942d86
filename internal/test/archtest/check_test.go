package archtest

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"weir/internal/test/testkit"
)

// code is a file of the package in dir.
func code(dir, body string) string {
	name := dir[strings.LastIndexByte(dir, '/')+1:]
	return fmt.Sprintf("%s/x.go: // Package %s is a test.\npackage %s\n%s\n", dir, name, name, body)
}

// expect checks that a repository of the given files, written "name: content", is found to be right
// (want is empty), or wrong once, in the words of want. What is right is checked with the repository
// itself too.
func expect(t *testing.T, want string, sources ...string) {
	t.Helper()
	root := fstest.MapFS{}
	for _, source := range sources {
		name, content, _ := strings.Cut(source, ": ")
		root[name] = &fstest.MapFile{Data: []byte(content)}
	}
	found := testkit.Must(read(root))(t).check([]string{"/here/weir"})
	if want == "" && len(found) > 0 || want != "" && (len(found) != 1 || !strings.Contains(found[0], want)) {
		t.Errorf("%q:\nhave %q\nwant %q", sources, found, want)
	}
}

func TestImports(t *testing.T) {
	f := func(dir, path, want string) {
		t.Helper()
		expect(t, want, code(dir, fmt.Sprintf("import _ %q", path)))
	}
	f("proxy/store/simredis", "weir/proxy/store", "")
	f("internal/net/http1/http1test", "weir/internal/net/http1", "")
	f("bench/limits/speed", "weir/proxy/limit", "")
	f("proxy/limit", "weir/proxy/http/session",
		"proxy/limit/x.go:3: proxy/limit must not import proxy/http, which is above it")
	f("proxy/wire", "weir/proxy/control/admin", "proxy/wire must not import proxy/control, which is above it")
	f("internal/net/loop", "weir/internal/program/service",
		"internal/net must not import internal/program, which is above it")
	f("proxy/http/session", "weir/internal/net/loop",
		"a pure package must not import internal/net/loop, which is in the rim")
	f("internal/program/service", "weir/proxy", "the program proxy must not be imported by other programs")
	f("internal/net/loop", "weir/proxy/limit", "the program proxy must not be imported by other programs")
	f("bench/limits/speed", "weir/proxy/wire", "the program proxy must not be imported by other programs")
	f("loadgen/drive", "weir/target/model", "the program target must not be imported by other programs")
	f("proxy/wire", "weir/proxy", "proxy/wire must not import proxy, which is above it")
	f("proxy/wire", "weir/shop", "shop is in none of the folders")
	f("proxy/http/session", "weir/proxy/limit/limittest", "proxy/limit/limittest is for tests")
	f("proxy/wire", "weir/proxy/limit/limittest", "proxy/limit/limittest is for tests")
	f("proxy/wire", "github.com/panjf2000/gnet/v2/pkg/x",
		"github.com/panjf2000/gnet is imported by internal/net/loop, internal/net/loop/looptest only")
	f("proxy/store/simredis", "github.com/redis/rueidis", "rueidis is imported by proxy/store/redis only")
	f("internal/net/http1", "unsafe", "unsafe is imported by internal/net/loop only")
	f("proxy/limit", "reflect",
		"reflect is imported by internal/data/strict, internal/test/testkit, proxy/store/storetest only")
	for _, path := range notPure {
		f("proxy/limit", path, "a pure package must not import "+path)
		f("proxy/wire", path, "")
	}
	f("proxy/limit", "golang.org/x/sys/unix", "must not import golang.org/x/sys/unix")
}

// Tests may import what they need, whatever their package may.
func TestImportsOfTests(t *testing.T) {
	const imports = "import (\n_ \"os\"\n_ \"weir/internal/net/loop\"\n_ \"weir/proxy/limit/limittest\"\n)\n"
	expect(t, "", code("proxy/limit", ""), "proxy/limit/x_test.go: package limit\n"+imports)
	expect(t, "shop: the package is in none of the folders: add its folder", code("shop", ""))
	expect(t, "", "shop/x_test.go: package shop\n")
}

func TestPurity(t *testing.T) {
	f := func(body, want string) {
		t.Helper()
		expect(t, want, code("proxy/limit", body))
		expect(t, "", code("proxy/wire", body))
	}
	f("import \"time\"\nfunc f(now time.Time) time.Time { return now.Add(time.Second) }", "")
	f("import \"time\"\nfunc f() time.Time { return time.Now() }", "a pure package must not use the clock: time.Now")
	f("import \"time\"\nvar f = time.Sleep", "the clock: time.Sleep")
	f("import clock \"time\"\nfunc f() { clock.Sleep(1) }", "the clock: time.Sleep")
	f("type c struct{}\nfunc (c) Now() {}\nfunc f(time c) { time.Now() }", "")
	f("func f() { go f() }", "a pure package must not start goroutines")
	f("import \"sync\"\nfunc f(w *sync.WaitGroup) { w.Go(nil) }", "a pure package must not start goroutines")
	f("func init() {}", "a pure package has no init functions")
	f("type t struct{}\nfunc (t) init() {}", "")
	for _, name := range clock {
		f("import \"time\"\nvar _ = "+name, "the clock: "+name)
	}
}

func TestFiles(t *testing.T) {
	f := func(dir, body, want string) {
		t.Helper()
		expect(t, want, code(dir, body))
	}
	f("proxy/wire", "import \"os\"\nvar _, _ = os.Open(\"\")", "")
	f("proxy/wire", "import system \"os\"\nvar _ = system.Chmod(\"\", 0)",
		"os.Chmod follows the links of other users: use internal/program/ownfile")
	for _, name := range creating {
		body := "import \"os\"\nvar _ = " + name
		f("internal/program/journal", body, name+" follows the links")
		f(fileOpener, body, "")
		f("bench/lab/rig", body, "")
		f("internal/test/testkit", body, "")
	}
}

func TestVariables(t *testing.T) {
	f := func(body, want string) {
		t.Helper()
		if want != "" {
			want = "a pure package keeps nothing in package-level variables: " + want
		}
		expect(t, want, code("proxy/limit", body))
	}
	f("import \"errors\"\nvar errFull = errors.New(\"full\")", "")
	f("type e struct{ n int }\nvar errFull = &e{5}", "")
	f("var table = [3]int{1, 2, 3}\nfunc f() int { return table[1] }", "")
	f("var table = build()\nfunc build() (t [3]int) { t[1] = 5; return t }", "")
	f("var names = map[string]int{\"a\": 1}", "")
	f("var a, b = 1, 2", "")
	f("var _ = new(int)", "")
	f("var a, b = f()\nfunc f() (int, int) { return 1, 2 }", "")
	f("var n = 5\nfunc f() { n := 1; n++; _ = n }", "")
	f("var n = 5\nfunc f(n int) { n = 1 }", "")

	f("var n int", "n is there to be changed")
	f("var n = 5\nfunc f() { n = 1 }", "n is changed here")
	f("var n = 5\nfunc f() { n++ }", "n is changed here")
	f("var n = 5\nfunc f() { for n = range 3 {} }", "n is changed here")
	f("var table = [3]int{}\nfunc f() { table[1] = 5 }", "table is changed here")
	f("var t = struct{ a []int }{}\nfunc f() { (t.a)[1] += 5 }", "t is changed here")
	f("var p = &struct{ a int }{}\nfunc f() { (*p).a = 5 }", "p is changed here")
	f("var names = map[string]int{}\nfunc f() { delete(names, \"a\") }", "names is changed here")
	f("var names = map[string]int{}\nfunc f() { clear(names) }", "names is changed here")
	f("var list = []int{1}\nfunc f() { copy(list[1:], list) }", "list is changed here")
	f("var names = make(map[string]int)", "names is there to be changed")
	f("var p = new(int)", "p is there to be changed")
	f("var now = func() int { return 1 }", "now is there to be changed")
	f("import \"sync\"\nvar mu sync.Mutex", "mu is there to be changed")
	f("import \"sync\"\nvar pool = sync.Pool{}", "pool is there to be changed")
	f("import \"sync\"\nvar pool = &sync.Pool{}", "pool is there to be changed")
	f("import \"sync/atomic\"\nvar p atomic.Pointer[int]", "p is there to be changed")
	// A variable of one file, changed in another.
	expect(t, "proxy/limit/y.go:2: a pure package keeps nothing in package-level variables: n is changed here",
		code("proxy/limit", "var n = 5"), "proxy/limit/y.go: package limit\nfunc f() { n = 1 }\n")
	expect(t, "", code("proxy/wire", "var n int\nfunc f() { n = 1 }"))
}

func TestComment(t *testing.T) {
	expect(t, "proxy: the program has no comment", "proxy/main.go: package main\n")
	expect(t, "", "proxy/main.go: // Proxy limits rates.\npackage main\n", "proxy/a.go: package main\n")
}

func TestTexts(t *testing.T) {
	todo := "TO" + "DO"
	expect(t, "README.md:2: "+todo+": finish it or leave it out", "README.md: # Weir\n"+todo+": write\n")
	expect(t, "proxy/limit/x.go:3: "+todo, code("proxy/limit", "// ("+todo+") later"))
	expect(t, "", "README.md: TODOS and a Toronto\n")
	expect(t, ".ci/run:1: /here/weir is a place on one machine", ".ci/run: cd /here/weir/proxy\n")
	expect(t, "", ".git/config: /here/weir\n", "bin/x.sh: /here/weir\n", "proxy/testdata/x.go: not Go\n",
		"logo.bin: /here/weir\n")
}

func TestBrokenSource(t *testing.T) {
	if _, err := read(fstest.MapFS{"proxy/x.go": {Data: []byte("package")}}); err == nil {
		t.Error("a file that cannot be parsed is accepted")
	}
}

func TestShape(t *testing.T) {
	f := func(want, body string) {
		t.Helper()
		expect(t, want, code("proxy/limit", body))
	}
	f("", "func (t *T) f(a, b int, c, d string, _ bool) {}")
	f("x.go:3: 6 parameters, at most 5 are allowed", "func (t *T) f(a, b int, c, d string, _, _ bool) {}")
	three := "func f() { for { switch { case true: if true { %s } else if false { %[1]s } else { g() } } } }"
	f("", fmt.Sprintf(three, "g()"))
	f("x.go:3: 4 levels of nesting, at most 3 are allowed", fmt.Sprintf(three, "for range 3 {}"))
	f("", fmt.Sprintf(three, "h := func() {\nfor { if true { select {} } } }; h()"))
	wide := func(n int) string { return "var _ = 1 // " + strings.Repeat("x", n-len("var _ = 1 // ")) }
	f("", wide(120))
	f("x.go:3: 121 columns, at most 120 are allowed", wide(121))
	f("", "var _ = `"+strings.Repeat("x", 120)+"`")
	f("", "var _ = \""+strings.Repeat("x", 120)+"\"")
	f("", "func f() {\n// Output:\n// "+strings.Repeat("x", 120)+"\n}")
	function := func(lines int) string { return "func f() {" + strings.Repeat("\n", lines-1) + "}" }
	f("", function(60))
	f("x.go:3: 61 lines in a function, at most 60 are allowed", function(61))
	const head = 3 // lines of a file around a body
	f("", strings.Repeat("\n", 400-head))
	f("x.go:2: 401 lines in a file, at most 400 are allowed", strings.Repeat("\n", 401-head))
	main := func(lines int) string {
		return "proxy/main.go: // Proxy.\npackage main\n" + strings.Repeat("\n", lines-2)
	}
	expect(t, "", main(150))
	expect(t, "proxy/main.go:2: 151 lines in main.go, at most 150 are allowed", main(151))
	expect(t, "", code("proxy/limit", ""), "proxy/limit/x_test.go: package limit\n"+function(61)+strings.Repeat("\n", 400))
}

func TestReferences(t *testing.T) {
	expect(t, `proxy/limit/x.go:3: the comment refers to "goal 4"`, code("proxy/limit", "// latency: goal 4.\nvar n = 5"))
	expect(t, `proxy/limit/x.go:3: the comment refers to "The issue"`,
		code("proxy/limit", "// The issue asks for it.\nvar n = 5"))
	expect(t, "", code("proxy/limit", "// The contract of a Reader: its goal.\nvar n = \"goal 4\""))
}

func TestDocument(t *testing.T) {
	f := func(want, cell string) {
		t.Helper()
		expect(t, want, "ARCHITECTURE.md: # A\n\n## Folders\n\n| folder | idea |\n| --- | --- |\n| "+cell+
			" | x `proxy/none` |\n\n## B\n",
			code("proxy/limit", ""), code("proxy/rules", ""))
	}
	f("", "`proxy/limit`, `rules`")
	f("ARCHITECTURE.md: the table of folders has proxy/gone, which does not exist", "`proxy/limit`, `gone`")
	f("ARCHITECTURE.md: the table of folders has loadgen, which does not exist", "`loadgen`")
	name := func(want, text string) {
		t.Helper()
		expect(t, want, "ARCHITECTURE.md: "+text, code("proxy/limit", "type A struct{}\nfunc (A) HandleIt() {}"))
	}
	name("", "PostgreSQL\n```\nA.HandleIt ─▶ HandleIt\n```\n")
	name("ARCHITECTURE.md: HandleThat is not in the source", "```\nA.HandleIt ─▶ HandleThat\n```\n")
	name("ARCHITECTURE.md: Gone is not in the source", "`A.Gone`")
}
