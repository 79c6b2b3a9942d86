package service

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"weir/internal/data/mask"
	"weir/internal/program/journal"
)

// An ending reports why a program ends.
type ending struct {
	program  Program
	settings *Settings
	stderr   io.Writer
	journal  *journal.Log // nil: not set up yet
}

// status reports err and returns the exit status. Each wrong setting takes a line, any
// other error one line.
func (e *ending) status(err error) int {
	if err == nil {
		return exitDone
	}
	status := exitFailed
	if exit, ok := errors.AsType[*ExitError](err); ok {
		status = exit.Status
		if exit.Err == nil {
			return status
		}
	} else if wrongUsage(err) {
		status = exitUsage
	}
	for _, line := range e.lines(err) {
		e.report(line, status)
	}
	return status
}

// report reports one line: as a log record if log lines are JSON, otherwise as text and,
// with LOG_FILE, also as a record there.
func (e *ending) report(line string, status int) {
	line = strings.ReplaceAll(line, "\n", "; ")
	format := e.settings.Text("LOG_FORMAT")
	if e.journal == nil || format != "json" {
		fmt.Fprintf(e.stderr, "%s: %s\n", e.program.Name, line)
	}
	if e.journal != nil {
		e.journal.FatalLogger(format, e.stderr).With(journal.ComponentKey, e.program.LogName).Error(line, "status", status)
	}
}

// lines returns what is reported about err.
func (e *ending) lines(err error) (lines []string) {
	if faults := split(err); !slices.ContainsFunc(faults, func(f error) bool { return !wrongUsage(f) }) {
		for _, f := range faults {
			line := f.Error()
			if from := e.settings.from[settingIn(f)]; from != "" {
				line = from + ", read as " + line
			}
			lines = append(lines, line)
		}
		return lines
	}
	if listen, ok := errors.AsType[*net.OpError](err); ok && listen.Op == "listen" {
		if said := e.aboutAddress(listen); said != "" {
			return []string{said}
		}
	}
	return []string{err.Error()}
}

// aboutAddress says which setting to change if an address cannot be listened on. It is
// empty if the error itself must suffice.
func (e *ending) aboutAddress(err *net.OpError) string {
	if err.Addr == nil {
		return ""
	}
	host, port, _ := net.SplitHostPort(err.Addr.String())
	setting := e.settings.portOf(port)
	if setting == "" {
		return ""
	}
	name, bind := e.settings.given(setting), e.settings.given(strings.TrimSuffix(setting, "PORT")+"BIND")
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		said := "port " + port + " is taken: set " + name
		if g := e.settings.find("TAKEOVER"); setting == "PORT" && g != nil && g.text == "true" {
			said = "port " + port + " is taken by something other than a " + e.program.Name +
				" of this user and machine: set " + name
		} else if setting == "PORT" && g != nil {
			said += ", or TAKEOVER=true to replace a " + e.program.Name + " that is running there"
		}
		return said
	case errors.Is(err, syscall.EACCES):
		return "port " + port + " cannot be opened by this user: set " + name + " to 1024 or more"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return host + " is not an address of this machine: set " + bind
	}
	return ""
}

// portOf returns the setting of a port that the program listens on, or "".
func (s *Settings) portOf(port string) string {
	for _, name := range []string{"PORT", "ADMIN_PORT", "DECISION_PORT", "GRPC_PORT"} {
		if port != "" && s.Text(name) == port {
			return name
		}
	}
	return ""
}

// given returns the name of a setting, or of the variable that it comes from.
func (s *Settings) given(name string) string { return cmp.Or(s.from[name], name) }

// split returns the errors joined by errors.Join.
func split(err error) (all []error) {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	for _, one := range joined.Unwrap() {
		all = append(all, split(one)...)
	}
	return all
}

// wrongUsage reports whether the user must change settings or arguments.
func wrongUsage(err error) bool {
	_, setting := errors.AsType[*SettingError](err)
	_, usage := errors.AsType[*UsageError](err)
	return setting || usage
}

// settingIn returns the name of the setting that err is about, or "".
func settingIn(err error) string {
	if setting, ok := errors.AsType[*SettingError](err); ok {
		return setting.Name
	}
	return ""
}

// without returns err without the parts about settings that known is about.
func without(known, err error) error {
	return errors.Join(slices.DeleteFunc(split(err), func(one error) bool {
		name := settingIn(one)
		return name != "" && slices.ContainsFunc(split(known), func(k error) bool { return settingIn(k) == name })
	})...)
}

// wrongArgument refuses arguments that the program does not use.
func (p *Program) wrongArgument(s *Settings, args []string) error {
	if len(args) == 0 || slices.Contains(p.Commands, args[0]) {
		return nil
	}
	name, _, assigns := strings.Cut(args[0], "=") // the value may be a secret
	problem := "unexpected argument " + strconv.Quote(mask.Value(name))
	if len(p.Commands) > 0 {
		problem = "unknown command " + strconv.Quote(name) + "; allowed: " + strings.Join(p.Commands, ", ")
	}
	if hint := p.hint(s, name, assigns); hint != "" {
		problem += ": " + hint
	}
	return &UsageError{problem}
}

// hint guesses what was meant by an argument. It is empty if there is no guess.
func (p *Program) hint(s *Settings, name string, assigns bool) string {
	flag := "-" + flagName(name)
	alone := slices.IndexFunc(s.list, func(g *setting) bool { return g.Value.boolean && g.given })
	known := s.find(strings.ToUpper(strings.ReplaceAll(name, "-", "_"))) != nil
	switch {
	case known && assigns:
		return "write it before " + p.Name + " as a variable, or " + flag + "=… as a flag"
	case known, slices.Contains([]string{"version", "help", "healthcheck"}, name):
		return "the flag is " + flag
	case alone >= 0 && (name == "true" || name == "false"):
		return "the value of a switch is given with =, as in -" + flagName(s.list[alone].Name) + "=" + name
	case strings.ContainsAny(name, "./") && p.File != "":
		return "a file is named by -" + flagName(p.File) + " or " + p.File
	}
	return ""
}
