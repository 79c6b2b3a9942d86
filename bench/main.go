// Bench asks questions about the whole system and prints the answers with
// their evidence.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"weir/bench/accuracy"
	"weir/bench/demo"
	"weir/bench/outage"
	"weir/bench/shared"
	"weir/bench/speed"
	"weir/internal/service"
)

// experiments are what bench can do.
var experiments = []struct {
	name, about string
	run         func(ctx context.Context, out io.Writer) error
}{
	{"demo", "plays a load below and above a limit under each algorithm (half a minute)", demo.Run},
	{"accuracy", "2,000/s through a limit of 1,000/s for a minute under each algorithm, counted at the target", accuracy.Run},
	{"outage", "kills the target under load and starts it again: what clients see, second by second", outage.Run},
	{"demo-redis", "two proxies share a limit, Redis is killed and started again: what each second saw (20 s)", shared.Demo},
	{"redis", "the same for a minute", shared.Run},
	{"speed", "proxy, target and load generator beside nginx and wrk: ratios within one run (ten minutes)", speed.Run},
}

func main() {
	service.Main(service.Program{Name: "bench", LogName: "Bench", About: "experiments: " + names(), Run: run})
}

func names() string {
	var list []string
	for _, e := range experiments {
		list = append(list, e.name)
	}
	return strings.Join(list, ", ")
}

func run(ctx context.Context, e *service.Env) error {
	if len(e.Args) != 1 {
		return usage("bench wants the name of one experiment")
	}
	for _, x := range experiments {
		if x.name == e.Args[0] {
			err := x.run(ctx, os.Stdout)
			if ctx.Err() != nil { // what it had started has been ended
				return &service.ExitError{Status: 130, Err: errors.New("interrupted")}
			}
			return err
		}
	}
	return usage(fmt.Sprintf("there is no experiment %q", e.Args[0]))
}

func usage(problem string) error {
	var b strings.Builder
	b.WriteString(problem + "; there are:")
	for _, x := range experiments {
		fmt.Fprintf(&b, "\n  bench %-10s %s", x.name, x.about)
	}
	return &service.ExitError{Status: 2, Err: fmt.Errorf("%s", b.String())}
}
