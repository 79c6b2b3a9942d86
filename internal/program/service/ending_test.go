package service

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/internal/test/testkit"
)

// withFiles is a program that takes no commands and has a setting for files.
func withFiles(check func() error) Program {
	var file, token string
	var takeover bool
	return Program{
		Name: "proxy", LogName: "Proxy", Port: 8082, File: "RULES_FILE", Check: check, Run: nothing,
		Settings: func(s *Settings) {
			s.Add(SettingList{{Name: "RULES_FILE", Value: String(&file)}, {Name: "ADVISOR_TOKEN", Value: BearerToken(&token)},
				{Name: "TAKEOVER", Default: "false", Value: Bool(&takeover)}})
		},
	}
}

// What the program has no use for is refused, and the message says what to do.
func TestArgumentsRefused(t *testing.T) {
	f := func(p Program, want string, args ...string) {
		t.Helper()
		o := start(t, p, nil, args)
		if want = "proxy: " + want + "; -help lists the settings\n"; o.status != 2 || o.stderr != want || o.stdout != "" {
			t.Errorf("%v: %+v, want %q", args, o, want)
		}
	}
	none := withFiles(nil)
	f(none, `unexpected argument "rules.yaml": a file is named by -rules-file or RULES_FILE`, "rules.yaml")
	f(none, `unexpected argument "version": the flag is -version`, "version")
	f(none, `unexpected argument "help": the flag is -help`, "help")
	f(none, `unexpected argument "rules-file": the flag is -rules-file`, "rules-file", "x")
	f(none, `unexpected argument "RULES_FILE": write it before proxy as a variable, or -rules-file=… as a flag`,
		"RULES_FILE=x")
	f(none, `unexpected argument "ADVISOR_TOKEN": write it before proxy as a variable, or -advisor-token=… as a flag`,
		"ADVISOR_TOKEN=s3cr3t")
	f(none, `unexpected argument "false": the value of a switch is given with =, as in -takeover=false`, "-takeover",
		"false")
	f(none, `unexpected argument "start"`, "start")
	f(none, `unexpected argument "start"`, "-port", "0", "start")
	f(doing(nothing), `unknown command "start"; allowed: run`, "start")
	f(doing(nothing), `unknown command "version"; allowed: run: the flag is -version`, "version")
}

// One start names every fault: of flags and variables, of the log file, and of what
// settings mean together, but nothing twice.
func TestAllFaultsAtOnce(t *testing.T) {
	p := withFiles(func() error {
		return errors.Join(&SettingError{Name: "PORT", Value: "8082", Problem: "is not that of X"},
			fmt.Errorf("%w", &SettingError{Name: "RULES_FILE", Value: "x", Problem: "cannot be read"}))
	})
	o := start(t, p, nil, []string{"-takeover=x"}, "PORT=x", "LOG_FILE=/dev/null/x")
	want := `proxy: PORT: "x" is not a whole number; allowed: 0 … 65535
proxy: TAKEOVER: "x" is neither true nor false; allowed: true, false
proxy: LOG_FILE: "/dev/null/x" cannot be written: not a directory; allowed: a file in a directory that exists
proxy: RULES_FILE: "x" cannot be read
`
	if o.status != 2 || o.stderr != want || o.stdout != "" {
		t.Errorf("have %+v, want\n%s", o, want)
	}
}

// What ends the program is in LOG_FILE too, and has the form of the log.
func TestFatalErrorsAreLogged(t *testing.T) {
	f := func(run error, status int, stderr, file string, env ...string) {
		t.Helper()
		name := filepath.Join(t.TempDir(), "log")
		o := start(t, doing(func(context.Context, *Env) error { return run }), nil, nil, append(env, "LOG_FILE="+name)...)
		text, err := os.ReadFile(name)
		if err != nil || o.status != status || !strings.HasSuffix(o.stderr, stderr) ||
			strings.Count(o.stderr, "\n") != 1 || !strings.HasSuffix(string(text), file) {
			t.Errorf("%v: %+v, %v\n%s", env, o, err, text)
		}
	}
	port := ` ERROR Proxy - PORT: "x" is not a whole number; allowed: 0 … 65535 status=2` + "\n"
	f(nil, 2, `proxy: PORT: "x" is not a whole number; allowed: 0 … 65535`+"\n", port, "PORT=x")
	record := `"level":"ERROR","msg":"PORT: \"x\" is not a whole number; allowed: 0 … 65535","component":"Proxy","status":2}` + "\n"
	f(nil, 2, record, record, "PORT=x", "LOG_FORMAT=json")
	record = `"level":"ERROR","msg":"the disk is gone","component":"Proxy","status":1}` + "\n"
	f(errors.New("the disk is gone"), 1, record, record, "LOG_FORMAT=json")
	f(errors.New("the disk is gone"), 1, "proxy: the disk is gone\n", " ERROR Proxy - the disk is gone status=1\n")
}

// The setting to change is named for either port.
func TestTakenPorts(t *testing.T) {
	l := testkit.Listen(t)
	_, port, _ := net.SplitHostPort(l.Addr().String())
	listen := func(addr string) func(context.Context, *Env) error {
		return func(context.Context, *Env) error {
			_, err := net.Listen("tcp", addr)
			return fmt.Errorf("open: %w", err)
		}
	}
	f := func(addr, want string, env ...string) {
		t.Helper()
		p := withFiles(nil)
		own := p.Settings
		p.Settings = func(s *Settings) {
			own(s)
			s.Add(SettingList{{Name: "ADMIN_PORT", Default: "0", Value: Int(new(int), 0, 65535)}})
		}
		p.Run = listen(addr)
		if o := start(t, p, nil, nil, env...); o.status != 1 || o.stderr != "proxy: "+want+"\n" {
			t.Errorf("%+v, want %s", o, want)
		}
	}
	f("127.0.0.1:"+port, "port "+port+" is taken: set PORT, or TAKEOVER=true to replace a proxy that is running there",
		"PORT="+port)
	f("127.0.0.1:"+port, "port "+port+" is taken by something other than a proxy of this user and machine: set PORT",
		"PORT="+port, "TAKEOVER=true")
	f("127.0.0.1:"+port, "port "+port+" is taken: set ADMIN_PORT", "ADMIN_PORT="+port)
	f("192.0.2.1:"+port, "192.0.2.1 is not an address of this machine: set BIND", "PORT="+port)
}

// A library that logs by package log is heard at level debug alone.
func TestLibrariesAreQuiet(t *testing.T) {
	p := doing(func(context.Context, *Env) error {
		log.Print("INFO: metrics: disable exposing PSI metrics")
		return nil
	})
	if o := start(t, p, nil, nil); strings.Contains(o.stdout, "PSI") || o.stderr != "" {
		t.Errorf("%+v", o)
	}
	if o := start(t, p, nil, nil, "LOG_LEVEL=debug"); !strings.Contains(o.stdout,
		" DEBUG Proxy - INFO: metrics: disable") {
		t.Errorf("%+v", o)
	}
}

// A variable that is a setting but for a letter is not passed over silently.
func TestMisspeltVariables(t *testing.T) {
	f := func(warned, variable string) {
		t.Helper()
		o := start(t, withFiles(nil), nil, nil, variable)
		if have := strings.Contains(o.stdout, " WARN "); have != (warned != "") || !strings.Contains(o.stdout, warned) ||
			strings.Contains(o.stdout, "s3cr3t") {
			t.Errorf("%s: %s", variable, o.stdout)
		}
	}
	warning := "An environment variable is not a setting but resembles one variable=%s setting=%s\n"
	f(fmt.Sprintf(warning, "RULESFILE", "RULES_FILE"), "RULESFILE=x")
	f(fmt.Sprintf(warning, "RULE_FILE", "RULES_FILE"), "RULE_FILE=x")
	f(fmt.Sprintf(warning, "RULES_FIEL", "RULES_FILE"), "RULES_FIEL=x")
	f(fmt.Sprintf(warning, "rules_file", "RULES_FILE"), "rules_file=x")
	f(fmt.Sprintf(warning, "RULES_FILES", "RULES_FILE"), "RULES_FILES=x")
	f(fmt.Sprintf(warning, "RULEZ_FILE", "RULES_FILE"), "RULEZ_FILE=x")
	f(fmt.Sprintf(warning, "ADVISOR_TOKE", "ADVISOR_TOKEN"), "ADVISOR_TOKE=s3cr3t")
	f(fmt.Sprintf(warning, "LOGLEVEL", "LOG_LEVEL"), "LOGLEVEL=debug")
	f(fmt.Sprintf(warning, "TAKE_OVER", "TAKEOVER"), "TAKE_OVER=true")
	f(fmt.Sprintf(warning, "SERVERPORT", "SERVER_PORT"), "SERVERPORT=1")
	f("", "RULES_FILE=x")
	f("", "RULE_FILES2=x")
	f("", "RULES_FILE1=x") // a number is more likely another thing
	f("", "PORTS=1")       // too short to tell
	f("", "BINDS=1")
	f("", "RULEFILE=x") // two off
	f("", "RULESFILE=")
	f("", "SERVER_PORT=1")
}

// What is set without effect is told, without secrets.
func TestSettingsWithoutEffect(t *testing.T) {
	p := withFiles(nil)
	own := p.Settings
	p.Settings = func(s *Settings) {
		own(s)
		s.Add(SettingList{{Name: "STORE", Value: String(new(string))}, {Name: "GATE", Default: "false",
			Value: Bool(new(bool))}})
		s.AddWithNoEffect(s.NoEffectWhen("STORE", ""), SettingList{{Name: "STORE_PASSWORD", Value: Secret(new(string))},
			{Name: "STORE_PORT", Default: "6379", Value: Int(new(int), 1, 65535), NoEffect: s.NoEffectWhen("GATE", "false")}})
		s.Add(SettingList{{Name: "GATE_MIN", Default: "1", Value: Int(new(int), 0, 9), NoEffect: s.NoEffectWhen("GATE",
			"false")}})
	}
	f := func(want []string, env ...string) {
		t.Helper()
		var have []string
		for line := range strings.Lines(start(t, p, nil, nil, env...).stdout) {
			if _, said, ok := strings.Cut(line, " WARN Proxy - "); ok {
				have = append(have, strings.TrimSpace(said))
			}
		}
		if !slices.Equal(have, want) {
			t.Errorf("%q: warned of %q, want %q", env, have, want)
		}
	}
	f([]string{"STORE_PASSWORD has no effect while STORE is not set", "GATE_MIN has no effect with GATE=false"},
		"STORE_PASSWORD=s3cr3t", "GATE_MIN=2", "STORE_PORT=6379")
	f([]string{"STORE_PORT has no effect with GATE=false", "STORE_PORT has no effect while STORE is not set"},
		"STORE_PORT=2")
	f(nil, "STORE_PASSWORD=s3cr3t", "STORE_PORT=2", "STORE=x", "GATE=true", "GATE_MIN=2")
	f(nil)
}
