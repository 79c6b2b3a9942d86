package service

import (
	"cmp"
	"errors"
	"flag"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"weir/internal/data/mask"
)

// Settings is the list of a program's settings and where their values are stored. Each
// setting is an environment variable, such as TARGET_URL, and a flag, -target-url. The
// flag wins, and an empty variable counts as unset.
//
// The methods named after types register a setting: *p is set to the default at once, and
// to the given value in Parse. Registering a name twice panics.
//
// Owned by the goroutine that starts the program.
type Settings struct {
	program  string
	list     []*setting
	idle     []idle
	alone    map[string]string // flags, with what each stands for without a value
	question string            // the path that -healthcheck asks; empty: not given
}

// An idle setting has no effect while another has a value.
type idle struct{ name, with, value string }

// A setting is one line of -help.
type setting struct {
	name    string
	alias   string // another name of the setting; may be empty
	def     string // the default as text
	meaning string
	allowed string // for messages; empty if anything is allowed
	boolean bool   // the flag may have no value
	always  bool   // call set with the default too
	secret  bool   // the value is never shown
	// set stores a value and returns it in canonical form, or what is wrong with it.
	set func(text string) (canonical string, err error)

	given      bool   // by flag
	configured bool   // by flag or environment; set by resolve
	text       string // given text, then the value in canonical form
}

// A SettingError says that a setting has an invalid value. Run may return one as well:
// then the program ends with status 2, as when Parse finds one.
type SettingError struct {
	Name    string // as in the environment
	Value   string // as given
	Problem string // "is not a whole number"
	Allowed string // allowed values
}

// Error names the setting, the value and what is allowed. If Problem already contains the
// value, as "open FILE: …" does, the value is not repeated.
func (e *SettingError) Error() string {
	quoted := strconv.Quote(e.Value)
	problem := strings.TrimPrefix(e.Problem, quoted+" ")
	problem = strings.TrimSuffix(strings.TrimSuffix(problem, ", is "+quoted), ", is "+e.Value)
	problem = strings.NewReplacer(": "+e.Value+": ", ": ", " "+e.Value+": ", ": ").Replace(problem)
	shown := mask.Value(e.Value)
	if shown != e.Value {
		problem = strings.NewReplacer(quoted, strconv.Quote(shown), e.Value, shown).Replace(problem)
	}
	s := e.Name + ": " + strconv.Quote(shown) + mask.URLs(" "+problem)
	if e.Allowed != "" {
		s += "; allowed: " + e.Allowed
	}
	return s
}

// A UsageError says that the command line is invalid: an unknown flag, or one without its
// value.
type UsageError struct {
	Problem string
}

// Error returns the problem and how to get help.
func (e *UsageError) Error() string { return e.Problem + "; -help lists the settings" }

// errVersion is what Parse returns for -version, like flag.ErrHelp for -help.
var errVersion = errors.New("version requested")

// NewSettings returns an empty list for a program.
func NewSettings(program string) *Settings {
	return &Settings{program: program, alone: make(map[string]string)}
}

// Parse parses args (without the program's name) and the environment env, sets what was
// registered, and returns the arguments that are not flags. Flags and other arguments may
// come in any order; after "--" nothing is a flag.
//
// The error is flag.ErrHelp for -help, a *UsageError, or joins a *SettingError for each
// wrong setting, in the order of registration. A wrong setting keeps its default; the
// others are set in any case.
func (s *Settings) Parse(args []string, env func(string) string) ([]string, error) {
	rest, err := s.parseFlags(args)
	if errors.Is(err, flag.ErrHelp) || errors.Is(err, errVersion) {
		return nil, err
	}
	var wrong []error
	for _, g := range s.list {
		wrong = append(wrong, g.resolve(env))
	}
	if err != nil {
		return nil, err // the flags are unknown, which may be why values are wrong
	}
	return rest, errors.Join(wrong...)
}

// parseFlags records the text of each flag given.
func (s *Settings) parseFlags(args []string) (rest []string, err error) {
	set := flag.NewFlagSet(s.program, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.Usage = func() {}
	version := set.Bool("version", false, "")
	set.BoolFunc("healthcheck", "", s.setQuestion)
	for _, g := range s.list {
		register := set.Func
		if g.boolean { // -name abbreviates -name=true
			register = set.BoolFunc
		}
		for _, name := range g.names() {
			register(flagName(name), "", g.record)
		}
	}
	args = s.spelledOut(args)
	for {
		if err := set.Parse(args); errors.Is(err, flag.ErrHelp) {
			return nil, err
		} else if err != nil {
			return nil, &UsageError{err.Error() + s.meantFlag(err.Error())}
		}
		read := len(args) - set.NArg()
		if *version {
			return nil, errVersion
		}
		if set.NArg() == 0 {
			return rest, nil
		}
		if read > 0 && args[read-1] == "--" {
			return append(rest, set.Args()...), nil
		}
		rest = append(rest, set.Arg(0))
		args = set.Args()[1:]
	}
}

// Alone makes the flag of a setting, if it has no value, set another setting to the given
// value.
func (s *Settings) Alone(name, other, value string) {
	s.alone[flagName(name)] = "-" + flagName(other) + "=" + value
}

// spelledOut returns args with those flags replaced by what they stand for.
func (s *Settings) spelledOut(args []string) []string {
	args = slices.Clone(args)
	for i, arg := range args {
		if arg == "--" {
			break
		}
		meant, ok := s.alone[strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-")]
		if ok && strings.HasPrefix(arg, "-") && (i == len(args)-1 || strings.HasPrefix(args[i+1], "-")) {
			args[i] = meant
		}
	}
	return args
}

// meantFlag returns the flag that the one in an error of the flag package resembles, or
// "".
func (s *Settings) meantFlag(problem string) string {
	_, given, ok := strings.Cut(problem, "not defined: -")
	name := strings.ToUpper(strings.ReplaceAll(given, "-", "_"))
	if !ok || name == "" {
		return ""
	}
	if meant := s.nearest(name); meant != "" {
		return ": there is -" + flagName(meant)
	}
	return ""
}

// resolve sets the value from the flag, or otherwise from the environment.
func (g *setting) resolve(env func(string) string) error {
	text, given := g.text, g.given
	if !given {
		text = cmp.Or(env(g.name), env(g.alias))
		given = text != ""
	}
	g.configured = given
	if !given {
		text = g.def
	}
	if !given && !g.always {
		g.text = text
		return nil
	}
	canonical, err := g.set(text)
	if err != nil {
		if g.secret {
			text = "***"
		}
		g.text = g.def
		if g.always {
			_, _ = g.set(g.def)
		}
		return &SettingError{Name: g.name, Value: text, Problem: err.Error(), Allowed: g.allowed}
	}
	g.text = canonical
	return nil
}

// NoEffect declares that settings have no effect while another has the given value, where
// "" means unset. Those that are set all the same are named in a warning at the start.
func (s *Settings) NoEffect(with, value string, names ...string) {
	for _, name := range names {
		s.idle = append(s.idle, idle{name, with, value})
	}
}

// warnIdle warns about settings that differ from their defaults without effect.
func (s *Settings) warnIdle(log *slog.Logger) {
	for _, one := range s.idle {
		if g := s.find(one.name); g.text != g.def && s.text(one.with) == one.value {
			why := "while " + one.with + " is not set"
			if one.value != "" {
				why = "with " + one.with + "=" + one.value
			}
			log.Warn(one.name + " has no effect " + why)
		}
	}
}

// changed returns the names and values of the settings that differ from their defaults,
// as arguments of a log line. Secrets are masked.
func (s *Settings) changed() []any {
	var pairs []any
	for _, g := range s.list {
		switch {
		case g.text == g.def:
		case g.secret:
			pairs = append(pairs, g.name, "***")
		default:
			pairs = append(pairs, g.name, mask.Value(g.text))
		}
	}
	return pairs
}

// find returns the named setting, or nil.
func (s *Settings) find(name string) *setting {
	for _, g := range s.list {
		if g.name == name {
			return g
		}
	}
	return nil
}

// Given reports whether one of the settings was given to Parse, by flag or environment, even if with its
// default.
func (s *Settings) Given(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { g := s.find(name); return g != nil && g.configured })
}

// text returns the value of a setting after Parse in canonical form. It is empty for a
// setting that the program does not have.
func (s *Settings) text(name string) string {
	if g := s.find(name); g != nil {
		return g.text
	}
	return ""
}

func (s *Settings) add(g *setting) {
	if s.find(g.name) != nil {
		panic("bug: setting " + g.name + " is registered twice")
	}
	s.list = append(s.list, g)
}

// flagName returns the flag of a setting: TARGET_URL → target-url.
func flagName(setting string) string {
	return strings.ReplaceAll(strings.ToLower(setting), "_", "-")
}

// record records the text of a flag. It is checked later, in the order of the settings.
func (g *setting) record(text string) error {
	g.given, g.text = true, text
	return nil
}
