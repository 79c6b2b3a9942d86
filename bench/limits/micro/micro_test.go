package micro

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"weir/bench/lab/result/resulttest"
	"weir/bench/lab/rig"
	"weir/bench/lab/rig/rigtest"
	"weir/internal/test/testkit"
)

const said = `goos: linux
pkg: weir/proxy/limit
cpu: some
BenchmarkTake/fixed-2         	 5000000	        21.50 ns/op	       0 B/op	       0 allocs/op
PASS
ok  	weir/proxy/limit	1.2s
pkg: weir/proxy/rules/rule
BenchmarkMatch 	     100	     12345 ns/op	        98.00 bytes/key	      64 B/op	       2 allocs/op
PASS
`

func TestParse(t *testing.T) {
	want := [][]string{
		{"proxy/limit", "Take/fixed", "21.5", "0", "0", ""},
		{"proxy/rules/rule", "Match", "1.234e+04", "64", "2", "98.00 bytes/key"},
	}
	if got := parse(said).Rows; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestPackages(t *testing.T) {
	for _, p := range packages {
		files, _ := filepath.Glob(filepath.Join("../../..", p, "*_test.go"))
		if !slices.ContainsFunc(files, func(file string) bool {
			return bytes.Contains(testkit.Must(os.ReadFile(file))(t), []byte("\nfunc Benchmark"))
		}) {
			t.Errorf("%s has no benchmark", p)
		}
	}
}

func TestRunRefuses(t *testing.T) {
	for _, args := range [][]string{{"long"}, {"1s", "2s"}} {
		_, err := rigtest.Run(t, func(l *rig.Lab) { Run(l, args) })
		resulttest.RequireExit(t, args[0], err, 2, "200ms")
	}
}
