package archtest

import (
	"path"
	"strings"
)

// modulePath is the name of this module.
const modulePath = "weir"

// A layer is a level of the architecture. A package may import only lower layers, and in the
// layers 1 to 3 also its own.
type layer int

const (
	pure     layer = iota // layer 0: values in, values out
	machines              // layer 1: state machines, which are given events and times
	rim                   // layer 2: sockets, clocks, goroutines, files
	mains                 // layer 3: wiring, no logic
)

// String returns the name of the layer, as in ARCHITECTURE.md.
func (l layer) String() string {
	return [...]string{"layer 0 (pure)", "layer 1 (machines)", "layer 2 (rim)", "layer 3 (mains)"}[l]
}

// layers is the table of all packages, by their folder. `*` stands for one folder name.
// internal/test/testkit, and packages named after their parent with the suffix "test"
// (http1/http1test), support tests: they belong to the rim, and only tests import them.
var layers = []struct {
	layer layer
	dirs  string // separated by spaces
}{
	{mains, "proxy loadgen target advisor bench"},
	{rim, "internal/net/admit internal/test/archtest internal/net/certs internal/timing/every internal/test/freeport internal/program/journal internal/net/loop internal/program/metric internal/program/ownfile internal/net/loop/pump internal/test/relay internal/program/service internal/program/watch"},
	{rim, "proxy/accesslog proxy/admin proxy/adaptive proxy/budget proxy/callback/post proxy/config proxy/counts proxy/decision proxy/delivery proxy/deferred/file proxy/deferred/postgres proxy/deferred/redis proxy/gates internal/net/handover proxy/recall proxy/roster proxy/store/* proxy/tally proxy/traffic proxy/wire"},
	{rim, "loadgen/control loadgen/drive loadgen/plan loadgen/report"},
	{rim, "target/serve"},
	{rim, "advisor/config advisor/history advisor/serve advisor/state"},
	{machines, "bench/closedloop"},
	{pure, "bench/backtest"},
	{rim, "bench/* bench/protect/failsafe"},
	{rim, "deploy deploy/*"},
	{machines, "advisor/core internal/net/cycle proxy/abandon proxy/check proxy/exchange proxy/gate proxy/route proxy/session proxy/upstream loadgen/session loadgen/record target/session"},
	{pure, "internal/timing/agenda internal/data/chart internal/net/loop/deadline internal/net/http1 internal/data/mask internal/net/share internal/data/strict"},
	{pure, "proxy/store/asks proxy/callback proxy/claims proxy/decide proxy/deferred proxy/deferred/inbox proxy/deferred/lines proxy/deferred/seal proxy/keys proxy/limit proxy/overlap proxy/pattern proxy/refusal proxy/rule proxy/sketch proxy/store proxy/terms"},
	{pure, "loadgen/pace loadgen/profile"},
	{pure, "target/model"},
	{pure, "advisor/codec advisor/forecast advisor/policy advisor/series"},
	{pure, "proxy/limit/rails"},
	{pure, "proxy/descriptor proxy/envoy proxy/rls"},
}

// sideways are the imports allowed within layer 0.
var sideways = map[string][]string{
	"proxy/store/asks":           {"proxy/limit", "proxy/store"},
	"proxy/callback":       {"internal/net/share"},
	"proxy/claims":         {"proxy/terms"},
	"proxy/decide":         {"internal/net/http1", "internal/net/share", "proxy/deferred", "proxy/keys", "proxy/limit", "proxy/refusal", "proxy/rule", "proxy/store"},
	"proxy/deferred":       {"internal/net/share"},
	"proxy/deferred/inbox": {"internal/net/share", "proxy/deferred"},
	"proxy/deferred/lines": {"internal/net/share", "proxy/deferred"},
	"proxy/deferred/seal":  {"internal/net/share", "proxy/deferred"},
	"proxy/keys":           {"internal/net/http1", "internal/net/share", "proxy/claims", "proxy/pattern"},
	"proxy/limit":          {"internal/data/strict"},
	"proxy/overlap":        {"proxy/pattern"},
	"proxy/pattern":        {"internal/net/http1"},
	"proxy/refusal":        {"internal/net/http1"},
	"proxy/rule":           {"internal/net/share", "internal/data/strict", "proxy/descriptor", "proxy/keys", "proxy/limit", "proxy/overlap", "proxy/pattern", "proxy/refusal", "proxy/terms"},
	"proxy/store":          {"proxy/limit"},
	"proxy/terms":          {"internal/net/http1", "internal/net/share", "internal/data/strict", "proxy/callback", "proxy/deferred"},
	"target/model":         {"internal/timing/agenda", "internal/data/strict"},
	"loadgen/pace":         {"loadgen/profile"},
	"loadgen/profile":      {"internal/data/strict"},
	"proxy/limit/rails":          {"proxy/limit"},
	"proxy/descriptor":     {"internal/data/strict", "proxy/limit", "proxy/rls"},
	"proxy/envoy":          {"internal/net/http1", "internal/data/strict", "proxy/decide", "proxy/descriptor", "proxy/limit", "proxy/rls", "proxy/rule", "proxy/store"},
	"proxy/rls":            {"internal/data/strict"},
	"advisor/forecast":     {"advisor/codec", "advisor/series"},
	"advisor/policy":       {"advisor/forecast"},
	"advisor/series":       {"advisor/codec"},
	"bench/backtest":       {"advisor/forecast"},
}

// onlyIn lists the packages that may import something that no other package may. A foreign path
// includes everything below it.
var onlyIn = map[string][]string{
	"github.com/panjf2000/gnet": {"internal/net/loop"},
	"github.com/redis/rueidis":  {"proxy/store/redis"},
	"go.etcd.io/bbolt":          {"proxy/deferred/file"},
	"github.com/jackc/pgx":      {"bench/postgres", "proxy/store/postgres", "proxy/store/postgres/postgrestest"},
	"gonum.org/v1/plot":         {"internal/data/chart"},
	"go.yaml.in/yaml":           {"internal/data/strict"},
	"unsafe":                    {"internal/net/loop"},
	"reflect":                   {"internal/data/strict", "internal/test/testkit", "proxy/store/storetest"},
}

// notBelowRim are imports that the layers 0 and 1 must not have: sockets, logs, files, processes.
var notBelowRim = []string{
	"net", "net/http", "log", "log/slog", "os", "os/exec", "os/signal", "syscall", "golang.org/x/sys",
}

// clock are the functions of package time that read the clock or wait.
var clock = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}

// layerOf returns the layer of the package in dir.
func layerOf(dir string) (layer, bool) {
	if testSupport(dir) {
		return rim, true
	}
	for _, row := range layers {
		for pattern := range strings.FieldsSeq(row.dirs) {
			if ok, _ := path.Match(pattern, dir); ok {
				return row.layer, true
			}
		}
	}
	return 0, false
}

// testSupport reports whether the package in dir exists only for tests.
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
