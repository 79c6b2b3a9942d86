// Package micro runs the Go benchmarks of packages and prints them in one table.
package micro

import (
	"bufio"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"

	"weir/bench/lab/result"
	"weir/bench/lab/rig"
)

// packages are the packages whose benchmarks cover the data path and the arithmetic behind it.
var packages = []string{"./internal/net/http1", "./internal/net/loop/deadline", "./proxy/limit", "./proxy/rules/rule",
	"./proxy/rules/tally", "./proxy/store/simredis", "./proxy/http/session", "./loadgen/pace", "./target/model",
	"./advisor/forecast", "./advisor/policy", "./advisor/core"}

// Run runs the benchmarks with the Go tool in the current folder, which must be the repository.
// args may contain the value of -benchtime.
func Run(l *rig.Lab, args []string) {
	span := "200ms"
	if len(args) > 0 {
		span = args[0]
	}
	if len(args) > 1 || !regexp.MustCompile(`^\d+(ms|s|x)$`).MatchString(span) {
		rig.UsageError("micro needs the time of each benchmark (200ms, 1s, 100x) or no argument, not %q", args)
	}
	cmd := exec.CommandContext(l.Ctx, "go",
		append([]string{"test", "-run", "^$", "-bench", ".", "-benchmem", "-benchtime", span}, packages...)...)
	text, err := cmd.CombinedOutput()
	if err != nil {
		rig.Check(fmt.Errorf("go test -bench: %w\n%s", err, text))
	}
	table := parse(string(text))
	if len(table.Rows) == 0 {
		rig.Check(fmt.Errorf("go test -bench printed no benchmark:\n%s", text))
	}
	l.Note("%d benchmarks, %s each", len(table.Rows), span)
	l.Table(table)
}

// line matches the result of a benchmark: its name without the number of processors, and pairs
// of values and units.
var line = regexp.MustCompile(`^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+(.*)$`)

// parse returns a table of the benchmarks. Its last column has their own metrics.
func parse(text string) *result.Table {
	t := result.NewTable("package | benchmark | ns | bytes allocated | objects |")
	pkg := ""
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		if name, ok := strings.CutPrefix(lines.Text(), "pkg: "); ok {
			pkg = strings.TrimPrefix(name, "weir/")
		}
		found := line.FindStringSubmatch(lines.Text())
		if found == nil {
			continue
		}
		values, more := make(map[string]float64), ""
		words := strings.Fields(found[2])
		for i := 0; i+1 < len(words); i += 2 {
			switch value, unit := words[i], words[i+1]; unit {
			case "ns/op", "B/op", "allocs/op":
				values[unit], _ = strconv.ParseFloat(value, 64)
			default:
				more += " " + value + " " + unit
			}
		}
		t.Add("%s | %s | %s | %.0f | %.0f | %s", pkg, found[1], strconv.FormatFloat(values["ns/op"], 'g', 4, 64),
			values["B/op"], values["allocs/op"], more)
	}
	return t
}
