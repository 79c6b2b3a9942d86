package service

import (
	"errors"
	"flag"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
)

// Settings is the list of what can be set for one program, and where the values
// go. Each setting is an environment variable, TARGET_URL, and a flag,
// -target-url; the flag wins, and an empty variable counts as unset.
//
// The methods named after types register a setting: p receives the default at
// once and the given value in Parse. Registering a name twice panics.
//
// Owned by the goroutine that starts the program.
type Settings struct {
	program  string
	list     []*setting
	idle     []idle
	alone    map[string]string // flags, and what each stands for without a value
	question string            // what -healthcheck asks; empty: it is not given
}

// An idle setting has no effect while another has a value.
type idle struct{ name, with, value string }

// A setting is one line of -help.
type setting struct {
	name    string
	alias   string // another name for the same; may be empty
	def     string // the default as text
	meaning string
	allowed string // for messages; empty when anything goes
	boolean bool   // the flag may stand alone
	always  bool   // set is called with the default too
	secret  bool   // the value is never shown
	// set takes over a given value and returns it in its canonical spelling,
	// or what is wrong with it.
	set func(text string) (canonical string, err error)

	given bool   // by a flag
	text  string // what was given, then the canonical spelling of the value in force
}

// A SettingError says that a setting has a value it cannot have. A program's
// Run may return one as well: the program then ends with status 2, as it does
// when Parse finds one.
type SettingError struct {
	Name    string // of the setting, as in the environment
	Value   string // as given
	Problem string // "is not a whole number"
	Allowed string // what would do
}

// Error names the setting, the value and what is allowed. A Problem that was found
// elsewhere may contain the value, as "open FILE: …" does: it is left out there.
func (e *SettingError) Error() string {
	quoted := strconv.Quote(e.Value)
	problem := strings.TrimPrefix(e.Problem, quoted+" ")
	problem = strings.TrimSuffix(strings.TrimSuffix(problem, ", is "+quoted), ", is "+e.Value)
	problem = strings.ReplaceAll(problem, " "+e.Value+": ", ": ")
	s := maskURL(e.Name + ": " + quoted + " " + problem)
	if e.Allowed != "" {
		s += "; allowed: " + e.Allowed
	}
	return s
}

// A UsageError says that the command line itself cannot be read: an unknown
// flag, or one without its value.
type UsageError struct {
	Problem string
}

// Error returns the problem and where to look for help.
func (e *UsageError) Error() string { return e.Problem + "; -help lists the settings" }

// errVersion is what Parse returns for -version, as flag.ErrHelp for -help.
var errVersion = errors.New("the version is asked for")

// NewSettings returns an empty list for a program.
func NewSettings(program string) *Settings { return &Settings{program: program} }

// Parse reads args (without the program's name) and the environment env, sets
// what was registered and returns the arguments that are not flags. Flags and
// other arguments may come in any order; after "--" nothing is a flag.
//
// The error is flag.ErrHelp for -help, a *UsageError, or joins a *SettingError
// for each wrong setting, in the order of registration. A setting that is wrong
// keeps its default; those that are right are set in any case.
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
		return nil, err // what the flags are is not known: their values may be wrong for that reason
	}
	return rest, errors.Join(wrong...)
}

// parseFlags keeps the texts of the flags given.
func (s *Settings) parseFlags(args []string) (rest []string, err error) {
	set := flag.NewFlagSet(s.program, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.Usage = func() {}
	version := set.Bool("version", false, "")
	set.Var(healthFlag{&s.question}, "healthcheck", "")
	for _, g := range s.list {
		set.Var(flagValue{g}, flagName(g.name), "")
		if g.alias != "" {
			set.Var(flagValue{g}, flagName(g.alias), "")
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

// Alone has the flag of a setting, when no value follows it, give another setting that
// value.
func (s *Settings) Alone(name, other, value string) {
	if s.alone == nil {
		s.alone = make(map[string]string)
	}
	s.alone[flagName(name)] = "-" + flagName(other) + "=" + value
}

// spelledOut returns args with what those flags stand for.
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

// meantFlag names the flag that one of the command line resembles, from the flag
// package's words about it; empty: none.
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

// resolve takes over the value of the flag, else of the environment.
func (g *setting) resolve(env func(string) string) error {
	text, given := g.text, g.given
	if !given {
		text = env(g.name)
		if text == "" && g.alias != "" {
			text = env(g.alias)
		}
		given = text != ""
	}
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

// NoEffect says that settings have no effect while another has the value; empty: while
// that is not set. A warning at the start names those that are set all the same.
func (s *Settings) NoEffect(with, value string, names ...string) {
	for _, name := range names {
		s.idle = append(s.idle, idle{name, with, value})
	}
}

// warnIdle warns of the settings in force that differ from their defaults without effect.
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

// changed returns the names and values of the settings in force that differ
// from their defaults, in turn, as a log line takes them; secrets are masked.
func (s *Settings) changed() []any {
	var pairs []any
	for _, g := range s.list {
		switch {
		case g.text == g.def:
		case g.secret:
			pairs = append(pairs, g.name, "***")
		default:
			pairs = append(pairs, g.name, maskURL(g.text))
		}
	}
	return pairs
}

// find returns the setting of a name, or nil.
func (s *Settings) find(name string) *setting {
	for _, g := range s.list {
		if g.name == name {
			return g
		}
	}
	return nil
}

// text is the value of a setting, after Parse, in its canonical spelling; empty
// for one that the program does not have.
func (s *Settings) text(name string) string {
	if g := s.find(name); g != nil {
		return g.text
	}
	return ""
}

// add registers a setting.
func (s *Settings) add(g *setting) {
	if s.find(g.name) != nil {
		panic("bug: setting " + g.name + " is registered twice")
	}
	s.list = append(s.list, g)
}

// flagName is the flag of a setting: TARGET_URL → target-url.
func flagName(setting string) string {
	return strings.ReplaceAll(strings.ToLower(setting), "_", "-")
}

// A flagValue keeps what the flag package finds; it is judged later, in the
// order of the settings.
type flagValue struct{ *setting }

// String is part of flag.Value, which calls it on the zero value too.
func (v flagValue) String() string { return "" }

// Set is part of flag.Value.
func (v flagValue) Set(text string) error {
	v.given, v.text = true, text
	return nil
}

// IsBoolFlag lets -name stand for -name=true.
func (v flagValue) IsBoolFlag() bool { return v.setting != nil && v.boolean }

// maskURL hides the user and password of every URL in text.
func maskURL(text string) string {
	const scheme = "://"
	at := strings.Index(text, scheme)
	if at < 0 {
		return text
	}
	at += len(scheme)
	end := at + strings.IndexAny(text[at:]+"/", "/?#, ")
	if i := strings.LastIndexByte(text[at:end], '@'); i >= 0 {
		return text[:at] + "***" + text[at+i:end] + maskURL(text[end:])
	}
	return text[:end] + maskURL(text[end:])
}
