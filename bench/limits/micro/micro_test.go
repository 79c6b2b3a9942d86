package micro

import (
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"weir/internal/program/service"
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

func TestRunRefuses(t *testing.T) {
	for _, args := range [][]string{{"long"}, {"1s", "2s"}} {
		err := Run(t.Context(), args, io.Discard)
		if exit, ok := errors.AsType[*service.ExitError](err); !ok || exit.Status != 2 ||
			!strings.Contains(err.Error(), "200ms") {
			t.Errorf("%q: %v", args, err)
		}
	}
}
