package service

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// values is one setting of each kind.
type values struct {
	url      string
	workers  int
	share    float64
	timeout  time.Duration
	takeover bool
	balance  word
	body     int64
	password string
	targets  []string
}

// A word is a value of a StringerEnum.
type word string

func (w word) String() string { return string(w) }

// register registers them all; the fault of TARGETS is an empty part.
func (v *values) register(s *Settings) {
	s.Add(SettingList{
		{Name: "TARGET_URL", Default: "http://127.0.0.1:8081", Value: String(&v.url), Help: "base URL of the target"},
		{Name: "TARGET_WORKERS", Default: "0", Value: Int(&v.workers, 0, 1_000_000),
			Help: "requests served at a time, 0 for no limit"},
		{Name: "TARGET_ERROR_RATE", Default: "0", Value: Float(&v.share, 0, 1), Help: "share of requests that fail"},
		{Name: "REDIS_TIMEOUT", Default: "0.1s", Value: Duration(&v.timeout, time.Millisecond, 2*time.Second),
			Help: "longest wait for a decision"},
		{Name: "TAKEOVER", Default: "false", Value: Bool(&v.takeover), Help: "take the port over"},
		{Name: "TARGET_BALANCE", Default: "p2c", Value: StringerEnum(&v.balance, "p2c", "round_robin"),
			Help: "how targets are chosen"},
		{Name: "BODY_MAX", Default: "65536", Value: Bytes(&v.body, 1, 1<<30), Help: "largest body"},
		{Name: "REDIS_PASSWORD", Value: Secret(&v.password), Help: "password"},
		{Name: "TARGETS", Default: "a", Value: Func(&v.targets, "comma separated names", names), Help: "targets"},
	})
}

func names(text string) ([]string, error) {
	list := strings.Split(text, ",")
	if slices.Contains(list, "") {
		return nil, errors.New("has an empty part")
	}
	return list, nil
}

func defaults() values {
	return values{url: "http://127.0.0.1:8081", timeout: 100 * time.Millisecond, balance: "p2c", body: 65536,
		targets: []string{"a"}}
}

// environment reads "NAME=value" pairs.
func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for _, p := range pairs {
			if n, value, _ := strings.Cut(p, "="); n == name {
				return value
			}
		}
		return ""
	}
}

func TestParse(t *testing.T) {
	f := func(args, env string, want func(*values), wantChanged string) {
		t.Helper()
		var have values
		s := NewSettings("test")
		have.register(s)
		if _, err := s.Parse(strings.Fields(args), environment(strings.Fields(env)...)); err != nil {
			t.Errorf("%s / %s: %v", args, env, err)
			return
		}
		wanted := defaults()
		want(&wanted)
		if !reflect.DeepEqual(have, wanted) {
			t.Errorf("%s / %s:\nhave %+v\nwant %+v", args, env, have, wanted)
		}
		if changed := strings.Trim(fmt.Sprint(s.changed()), "[]"); changed != wantChanged {
			t.Errorf("%s / %s: changed %q, want %q", args, env, changed, wantChanged)
		}
	}
	f("", "", func(*values) {}, "")
	f("", "TARGET_URL=http://a", func(v *values) { v.url = "http://a" }, "TARGET_URL http://a")
	f("-target-url http://b", "TARGET_URL=http://a", func(v *values) { v.url = "http://b" }, "TARGET_URL http://b")
	f("--target-url=http://b", "", func(v *values) { v.url = "http://b" }, "TARGET_URL http://b")
	f("-target-url=", "TARGET_URL=http://a", func(v *values) { v.url = "" }, "TARGET_URL ")
	f("", "TARGET_WORKERS=", func(*values) {}, "")
	f("", "TARGET_WORKERS=1000000", func(v *values) { v.workers = 1e6 }, "TARGET_WORKERS 1000000")
	f("", "TARGET_WORKERS=007", func(v *values) { v.workers = 7 }, "TARGET_WORKERS 7")
	f("", "TARGET_WORKERS=00", func(*values) {}, "") // another spelling of the default
	f("", "TARGET_ERROR_RATE=2.5e-1", func(v *values) { v.share = 0.25 }, "TARGET_ERROR_RATE 0.25")
	f("", "REDIS_TIMEOUT=1s", func(v *values) { v.timeout = time.Second }, "REDIS_TIMEOUT 1s")
	f("", "REDIS_TIMEOUT=0.1s", func(*values) {}, "")
	f("-takeover", "", func(v *values) { v.takeover = true }, "TAKEOVER true")
	f("-takeover=false", "TAKEOVER=true", func(*values) {}, "")
	f("", "TAKEOVER=1", func(v *values) { v.takeover = true }, "TAKEOVER true")
	f("", "TARGET_BALANCE=round_robin", func(v *values) { v.balance = "round_robin" }, "TARGET_BALANCE round_robin")
	f("", "BODY_MAX=1MB", func(v *values) { v.body = 1e6 }, "BODY_MAX 1MB")
	f("", "BODY_MAX=65536", func(*values) {}, "")
	f("", "REDIS_PASSWORD=swordfish", func(v *values) { v.password = "swordfish" }, "REDIS_PASSWORD ***")
	f("", "TARGETS=b,c", func(v *values) { v.targets = []string{"b", "c"} }, "TARGETS b,c")
	f("-targets=", "", func(v *values) { v.targets = nil }, "TARGETS ")
	f("-target-url http://u:p@h/", "", func(v *values) { v.url = "http://u:p@h/" }, "TARGET_URL http://***@h/")
	f("", "TARGET_URL=postgres:?password=swordfish", func(v *values) { v.url = "postgres:?password=swordfish" },
		"TARGET_URL postgres:?password=***")
	for given, shown := range map[string]string{`rediss://h/0?password=ab"SECRET`: "rediss://h/0?password=***",
		"rediss://h/0?password=ab`SECRET":     "rediss://h/0?password=***",
		"rediss://h/0?password=ab,c://SECRET": "rediss://h/0?password=***", "host=h;password=SECRET": "host=h;password=***"} {
		f("", "TARGET_URL="+given, func(v *values) { v.url = given }, "TARGET_URL "+shown)
	}
}

// An error shows no secret of a value, which it or its cause quotes.
func TestSettingErrorMasks(t *testing.T) {
	for _, value := range []string{`rediss://h/0?password=ab"SECRET`, "rediss://h/0?password=ab`SECRET",
		"rediss://h/0?password=ab,c://SECRET", "host=h password='ab SECRET'"} {
		for _, problem := range []string{"is wrong", strconv.Quote(value) + " is wrong",
			"cannot be used: parse " + strconv.Quote(value) + ": is wrong",
			"cannot be used: parse `" + value + "`: is wrong", "cannot be used: open " + value + ": is wrong"} {
			text := (&SettingError{"DEFER_URL", value, problem, "a URL"}).Error()
			if strings.Contains(text, "SECRET") || !strings.HasSuffix(text, "is wrong; allowed: a URL") {
				t.Errorf("%s is shown as %s", problem, text)
			}
		}
	}
}

func TestParseRefuses(t *testing.T) {
	f := func(args, env, want string) {
		t.Helper()
		var v values
		s := NewSettings("test")
		v.register(s)
		_, err := s.Parse(strings.Fields(args), environment(strings.Fields(env)...))
		if fmt.Sprint(err) != want {
			t.Errorf("%s / %s:\nhave %v\nwant %s", args, env, err, want)
		}
	}
	f("", "TARGET_WORKERS=x", `TARGET_WORKERS: "x" is not a whole number; allowed: 0 … 1000000`)
	f("", "TARGET_WORKERS=1.5", `TARGET_WORKERS: "1.5" is not a whole number; allowed: 0 … 1000000`)
	f("-target-workers -1", "", `TARGET_WORKERS: "-1" is out of range; allowed: 0 … 1000000`)
	f("", "TARGET_WORKERS=1000001", `TARGET_WORKERS: "1000001" is out of range; allowed: 0 … 1000000`)
	f("", "TARGET_WORKERS=99999999999999999999",
		`TARGET_WORKERS: "99999999999999999999" is out of range; allowed: 0 … 1000000`)
	f("-target-workers=", "", `TARGET_WORKERS: "" is not a whole number; allowed: 0 … 1000000`)
	f("", "TARGET_ERROR_RATE=NaN", `TARGET_ERROR_RATE: "NaN" is out of range; allowed: 0 … 1`)
	f("", "TARGET_ERROR_RATE=1.01", `TARGET_ERROR_RATE: "1.01" is out of range; allowed: 0 … 1`)
	f("", "TARGET_ERROR_RATE=half", `TARGET_ERROR_RATE: "half" is not a number; allowed: 0 … 1`)
	f("", "REDIS_TIMEOUT=100", `REDIS_TIMEOUT: "100" is not a duration such as 250ms, 30s or 5m; allowed: 1ms … 2s`)
	f("", "REDIS_TIMEOUT=3s", `REDIS_TIMEOUT: "3s" is out of range; allowed: 1ms … 2s`)
	f("", "TAKEOVER=yes", `TAKEOVER: "yes" is neither true nor false; allowed: true, false`)
	f("", "TARGET_BALANCE=P2C", `TARGET_BALANCE: "P2C" is unknown; allowed: p2c, round_robin`)
	f("-target-balance=", "", `TARGET_BALANCE: "" is unknown; allowed: p2c, round_robin`)
	f("", "BODY_MAX=0", `BODY_MAX: "0" is out of range; allowed: 1 … 1GiB`)
	f("", "BODY_MAX=1TiB", `BODY_MAX: "1TiB" is out of range; allowed: 1 … 1GiB`)
	f("", "BODY_MAX=1EiB", `BODY_MAX: "1EiB" is not a number of bytes such as 65536, 64KiB or 1MB; allowed: 1 … 1GiB`)
	f("", "TARGETS=a,,b", `TARGETS: "a,,b" has an empty part; allowed: comma separated names`)
	f("-nope", "", "flag provided but not defined: -nope; -help lists the settings")
	f("-target_url=x", "", "flag provided but not defined: -target_url: there is -target-url; -help lists the settings")
	f("-target-ulr=x", "", "flag provided but not defined: -target-ulr: there is -target-url; -help lists the settings")
	f("-target-url", "", "flag needs an argument: -target-url; -help lists the settings")
	// All faults in the order of registration, wherever they are given.
	f("-targets=,", "TARGET_WORKERS=x TAKEOVER=x", `TARGET_WORKERS: "x" is not a whole number; allowed: 0 … 1000000`+"\n"+
		`TAKEOVER: "x" is neither true nor false; allowed: true, false`+"\n"+
		`TARGETS: "," has an empty part; allowed: comma separated names`)
	f("-help -nope", "TARGET_WORKERS=x", flag.ErrHelp.Error())
	f("-version", "TARGET_WORKERS=x", errVersion.Error())
}

func TestParseArguments(t *testing.T) {
	f := func(args, want string) {
		t.Helper()
		var v values
		s := NewSettings("test")
		v.register(s)
		rest, err := s.Parse(strings.Fields(args), environment())
		if have := fmt.Sprint(rest, v.workers, v.takeover, err); have != want {
			t.Errorf("%s: have %s, want %s", args, have, want)
		}
	}
	f("", "[] 0 false <nil>")
	f("run file.json", "[run file.json] 0 false <nil>")
	f("run file.json -target-workers 3 -takeover", "[run file.json] 3 true <nil>")
	f("-target-workers 3 run -takeover file.json", "[run file.json] 3 true <nil>")
	f("run -- -takeover x", "[run -takeover x] 0 false <nil>")
	f("run -", "[run -] 0 false <nil>")
}

func TestUnboundedSpans(t *testing.T) {
	s := NewSettings("test")
	var i int
	var f float64
	var d time.Duration
	var b int64
	s.Add(SettingList{
		{Name: "I", Value: Int(&i, 1, math.MaxInt)}, {Name: "F", Value: Float(&f, 0.5, math.Inf(1))},
		{Name: "D", Value: Duration(&d, time.Minute, math.MaxInt64)}, {Name: "B", Value: Bytes(&b, 1024, math.MaxInt64)},
	})
	for _, want := range []string{"I at least 1", "F at least 0.5", "D at least 1m", "B at least 1KiB"} {
		name, allowed, _ := strings.Cut(want, " ")
		_, err := s.Parse(nil, environment(name+"=-1"))
		if setting, ok := errors.AsType[*SettingError](err); name == "D" || ok && setting.Allowed == allowed {
			continue
		}
		t.Errorf("%s: %v", want, err)
	}
	if _, err := s.Parse(nil, environment("F=+Inf")); err == nil {
		t.Error("an infinite number is accepted")
	}
}

// A token that no request can bring is refused at the start, and not told.
func TestToken(t *testing.T) {
	for text, fits := range map[string]bool{"": true, "s3cr3t-._~+/=": true, "s3cr3t\n": false, " s3cr3t": false,
		"s3 cr3t": false, "s3cr3té": false} {
		var token string
		s := NewSettings("test")
		s.Add(SettingList{{Name: "ADMIN_TOKEN", Value: BearerToken(&token)}})
		_, err := s.Parse(nil, environment("ADMIN_TOKEN="+text))
		switch {
		case fits && (err != nil || token != text):
			t.Errorf("%q: %q, %v", text, token, err)
		case !fits && (err == nil ||
			err.Error() != `ADMIN_TOKEN: "***" cannot be sent in a header field; allowed: visible ASCII characters`):
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestWrongTablesPanic(t *testing.T) {
	f := func(want string, rows ...Setting) {
		t.Helper()
		defer func() {
			if v := recover(); v != want {
				t.Errorf("recovered %v, want %s", v, want)
			}
		}()
		NewSettings("test").Add(rows)
	}
	row := Setting{Name: "A", Value: Int(new(int), 1, 2)}
	f("bug: setting A is registered twice", row, row)
	row.Default = "3"
	f("bug: the default of A is out of range", row)
}

func TestBytesText(t *testing.T) {
	f := func(text string, want int64, canonical string) {
		t.Helper()
		n, err := parseBytes(text)
		if err != nil || n != want || formatBytes(n) != canonical {
			t.Errorf("%s: have %d, %s, %v; want %d, %s", text, n, formatBytes(n), err, want, canonical)
		}
	}
	f("0", 0, "0")
	f("17", 17, "17")
	f("17B", 17, "17")
	f("256KiB", 256<<10, "256KiB")
	f("256 KiB", 256<<10, "256KiB")
	f("1048576", 1<<20, "1MiB")
	f("3GiB", 3<<30, "3GiB")
	f("2048GiB", 2<<40, "2TiB")
	f("5TB", 5e12, "5TB")
	f("10MB", 10e6, "10MB")
	f("10kB", 10e3, "10KB")
	f("-1KB", -1e3, "-1KB")
	for _, text := range []string{"", "B", "KiB", "1.5MiB", "1 M", "0x10", "9223372036854775808",
		"9223372036854775807KiB", "-9223372036854775807KiB"} {
		if n, err := parseBytes(text); err == nil {
			t.Errorf("%q is read as %d", text, n)
		}
	}
}

func TestFloatText(t *testing.T) {
	for f, want := range map[float64]string{
		0: "0", 1: "1", -0.25: "-0.25", 1e-6: "0.000001", 1e9: "1000000000", 3.1536e9: "3153600000", 1e15: "1e+15",
		1e-10: "1e-10",
	} {
		if have := formatFloat(f); have != want {
			t.Errorf("%g is written %s, want %s", f, have, want)
		}
	}
}

func TestDurationText(t *testing.T) {
	for text, want := range map[string]string{
		"180s": "3m", "90s": "1m30s", "60m": "1h", "3605s": "1h0m5s", "90m": "1h30m", "100ms": "100ms", "0s": "0s",
		"10s": "10s",
	} {
		d, err := time.ParseDuration(text)
		if have := formatDuration(d); err != nil || have != want {
			t.Errorf("%s is written %s, want %s", text, have, want)
		}
	}
}

func TestHelp(t *testing.T) {
	var v values
	s := NewSettings("proxy")
	v.register(s)
	var b strings.Builder
	s.writeHelp(&b, "limits the rate of requests")
	const want = `proxy - limits the rate of requests

Every setting is an environment variable and a flag; the flag wins.

SETTING            FLAG                DEFAULT                MEANING
TARGET_URL         -target-url         http://127.0.0.1:8081  base URL of the target
TARGET_WORKERS     -target-workers     0                      requests served at a time, 0 for no limit (0 … 1000000)
TARGET_ERROR_RATE  -target-error-rate  0                      share of requests that fail (0 … 1)
REDIS_TIMEOUT      -redis-timeout      100ms                  longest wait for a decision (1ms … 2s)
TAKEOVER           -takeover           false                  take the port over (true, false)
TARGET_BALANCE     -target-balance     p2c                    how targets are chosen (p2c, round_robin)
BODY_MAX           -body-max           64KiB                  largest body (1 … 1GiB)
REDIS_PASSWORD     -redis-password     -                      password
TARGETS            -targets            a                      targets (comma separated names)
                   -version                                   print the version
                   -help                                      print this help
`
	if b.String() != want {
		t.Errorf("have\n%s\nwant\n%s", b.String(), want)
	}
}

// Another environment may be read in place of the given one; flags override both.
func TestTranslate(t *testing.T) {
	parse := func(args ...string) (v values, lines []string) {
		s := NewSettings("proxy")
		v.register(s)
		s.Translate = func(env func(string) string) (func(string) string, map[string]string, error) {
			return environment("TARGET_WORKERS="+env("WORKERS"), "REDIS_TIMEOUT=x"),
				map[string]string{"REDIS_TIMEOUT": "WAIT"}, &SettingError{Name: "PORTS", Value: "9", Problem: "are odd"}
		}
		_, err := s.Parse(args, environment("WORKERS=3", "TARGET_WORKERS=4"))
		return v, (&ending{settings: s}).lines(err)
	}
	v, told := parse("-redis-timeout", "1s")
	if v.workers != 3 || v.timeout != time.Second || !slices.Equal(told, []string{`PORTS: "9" are odd`}) {
		t.Errorf("%+v, told %q", v, told)
	}
	if _, told = parse(); len(told) != 2 || !strings.HasPrefix(told[1], "WAIT, read as ") {
		t.Errorf("told %q", told)
	}
}

// A flag without a value may stand for another setting; with one it is its own.
func TestAlone(t *testing.T) {
	for _, test := range []struct {
		args           string
		schema, action string
		rest           string
	}{
		{"-schema", "weir", "print", ""},
		{"--schema -workers 3", "weir", "print", ""},
		{"-workers 3 -schema", "weir", "print", ""},
		{"-schema limits", "limits", "run", ""},
		{"-schema=limits -action print", "limits", "print", ""},
		{"x -- -schema", "weir", "run", "x -schema"},
	} {
		var schema, action string
		var workers int
		s := NewSettings("test")
		s.Add(SettingList{
			{Name: "SCHEMA", Default: "weir", Value: String(&schema), Alone: "-action=print"},
			{Name: "ACTION", Default: "run", Value: StringEnum(&action, "run, print")},
			{Name: "WORKERS", Default: "1", Value: Int(&workers, 1, 9)},
		})
		rest, err := s.Parse(strings.Fields(test.args), environment())
		if err != nil || schema != test.schema || action != test.action || strings.Join(rest, " ") != test.rest {
			t.Errorf("%s: %q, %q, rest %q, %v", test.args, schema, action, rest, err)
		}
	}
}
