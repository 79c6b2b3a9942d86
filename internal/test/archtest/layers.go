package archtest

import (
	"path"
	"slices"
	"strings"
)

// modulePath is the name of this module.
const modulePath = "weir"

// order lists the folders from the top. A package belongs to the longest one that it is in or below,
// and imports only packages of its own folder and of those further down.
var order = strings.Fields(`
	deploy
	bench bench/limits bench/overload bench/faults bench/deferred bench/pacing bench/forecast bench/lab
	loadgen target advisor
	proxy proxy/control proxy/config proxy/ask proxy/wire proxy/http proxy/targets proxy/rules
	proxy/deferred proxy/store proxy/limit
	internal/test internal/program internal/net internal/data internal/timing`)

// rim are the packages that use sockets, clocks, goroutines and files. All others are pure: values
// in, values out. They import only pure packages. `*` stands for one folder name.
var rim = strings.Fields(`
	internal/test/* internal/program/* internal/timing/every
	internal/net/admit internal/net/loop internal/net/loop/pump
	proxy proxy/control/* proxy/config proxy/ask/port proxy/ask/xds proxy/wire proxy/wire/* proxy/rules/tally
	proxy/targets/gates proxy/targets/roster proxy/deferred/file proxy/deferred/postgres proxy/deferred/redis
	proxy/store/lane proxy/store/simredis proxy/store/redis proxy/store/postgres proxy/store/remote
	loadgen loadgen/control loadgen/drive loadgen/plan loadgen/report target target/serve
	advisor advisor/config advisor/history advisor/serve advisor/state
	bench bench/lab/* bench/limits/* bench/limits/speed/grpcload bench/overload/*
	bench/overload/protect/failsafe bench/faults/* bench/deferred bench/pacing bench/forecast/advisor deploy deploy/*`)

// onlyIn lists the packages that may import something that no other package may. A foreign path
// includes everything below it.
var onlyIn = map[string][]string{
	"github.com/panjf2000/gnet": {"internal/net/loop", "internal/net/loop/looptest"},
	"github.com/redis/rueidis":  {"proxy/store/redis"},
	"go.etcd.io/bbolt":          {"proxy/deferred/file"},
	"github.com/jackc/pgx":      {"bench/limits/postgres", "proxy/store/postgres", "proxy/store/postgres/postgrestest"},
	"golang.org/x/net":          {"internal/net/http2", "proxy"},
	"gonum.org/v1/plot":         {"internal/data/chart"},
	"go.yaml.in/yaml":           {"internal/data/strict"},
	"unsafe":                    {"internal/net/loop"},
	"reflect":                   {"internal/data/strict", "internal/test/testkit", "proxy/store/storetest"},
}

// notPure are imports that pure packages must not have: sockets, logs, files, processes. Those below
// golang.org/x/sys are too.
var notPure = []string{"net", "net/http", "log", "log/slog", "os", "os/exec", "os/signal", "syscall"}

// clock are the functions that read the clock or wait, which pure packages must not use.
var clock = strings.Fields(`
	time.Now time.Since time.Until time.Sleep time.After time.AfterFunc time.NewTimer time.NewTicker time.Tick`)

// fileOpener is the only package that may create files or change their modes, because it does not
// follow the symbolic links of other users.
const fileOpener = "internal/program/ownfile"

// creating are the functions that follow any link.
var creating = strings.Fields("os.OpenFile os.Create os.WriteFile os.Chmod os.Chown os.Truncate")

// guardsFiles reports whether the package in dir creates files with fileOpener only. Experiments and
// support for tests write into folders of their own.
func guardsFiles(dir string) bool {
	return dir != fileOpener && !testSupport(dir) && !below(dir, "internal/test") &&
		program(dir) != "bench" && !below(dir, "deploy")
}

// folder returns the place in order of the folder that the package in dir belongs to; -1: there is none.
func folder(dir string) int {
	for ; dir != "."; dir = path.Dir(dir) {
		if i := slices.Index(order, dir); i >= 0 {
			return i
		}
	}
	return -1
}

// pure reports whether the package in dir is not in the rim.
func pure(dir string) bool {
	return !testSupport(dir) && !slices.ContainsFunc(rim, func(pattern string) bool {
		ok, _ := path.Match(pattern, dir)
		return ok
	})
}

// testSupport reports whether the package in dir exists only for tests: testkit, or a package named
// after its parent with the suffix "test" (http1/http1test).
func testSupport(dir string) bool {
	parent := path.Base(path.Dir(dir))
	return dir == "internal/test/testkit" || path.Base(dir) == parent+"test"
}

// program returns the program that dir belongs to, or "".
func program(dir string) string {
	top, _, _ := strings.Cut(dir, "/")
	switch top {
	case "proxy", "loadgen", "target", "advisor", "bench":
		return top
	}
	return ""
}
