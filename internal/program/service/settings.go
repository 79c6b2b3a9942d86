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

// Settings is the list of a program's settings. Each is an environment variable, such as TARGET_URL,
// and a flag, -target-url. The flag wins, and an empty variable counts as unset.
//
// Owned by the goroutine that starts the program.
type Settings struct {
	// Translate returns the environment that is read in place of env, and for settings whose values come from
	// variables of other names, these names. It is called after the flags are recorded, which Text returns.
	// The error is as that of Parse. nil: env itself is read.
	Translate func(env func(string) string) (read func(string) string, from map[string]string, err error)

	// Presets returns the defaults that -help shows in place of those of the settings, and what it says about env.
	// It is called after the flags are recorded. nil: there are none.
	Presets func(env func(string) string) (defaults map[string]string, about string)

	program  string
	list     []*setting
	question string            // the path that -healthcheck asks; empty: not given
	from     map[string]string // as returned by Translate
	presets  map[string]string // as returned by Presets
	about    string
}

// A SettingList has settings, in the order of -help.
type SettingList []Setting

// A Setting is one line of -help.
type Setting struct {
	Name    string
	Alias   string // another name; may be empty
	Default string // as text; empty: none, and Value keeps what it has
	Value   Value  // where the value is stored, and what is allowed
	Help    string // its meaning
	// NoEffect returns why the setting has no effect, such as "with GATE=off", or "" if it has one. Settings
	// that are changed all the same are named in a warning at the start. nil: it always has an effect.
	NoEffect func() string
	// Commands are those with which the setting is allowed; nil: it always is.
	Commands []string
	// Alone is the flag that the setting's own stands for if it has no value; empty: it needs one.
	Alone string
}

// A setting is a Setting with what is given for it.
type setting struct {
	Setting
	idle       []func() string // of the setting and of its table
	given      bool            // by flag
	configured bool            // by flag or environment; set by resolve
	text       string          // given text, then the value in canonical form
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
	return &Settings{program: program}
}

// Parse parses args (without the program's name) and the environment env, sets the values of the
// settings, and returns the arguments that are not flags. Flags and other arguments may
// come in any order; after "--" nothing is a flag.
//
// The error is flag.ErrHelp for -help, a *UsageError, or joins a *SettingError for each
// wrong setting, in the order of registration. A wrong setting keeps its default; the
// others are set in any case.
func (s *Settings) Parse(args []string, env func(string) string) ([]string, error) {
	rest, err := s.parseFlags(args)
	if s.Presets != nil {
		s.presets, s.about = s.Presets(env)
	}
	if errors.Is(err, flag.ErrHelp) || errors.Is(err, errVersion) {
		return nil, err
	}
	var wrong []error
	if s.Translate != nil {
		var untranslated error
		env, s.from, untranslated = s.Translate(env)
		wrong = append(wrong, untranslated)
	}
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
		if g.Value.boolean { // -name abbreviates -name=true
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

// spelledOut returns args with those flags replaced by what they stand for.
func (s *Settings) spelledOut(args []string) []string {
	args = slices.Clone(args)
	for i, arg := range args {
		if arg == "--" {
			break
		}
		name, isFlag := strings.CutPrefix(arg, "-")
		name = strings.TrimPrefix(name, "-")
		at := slices.IndexFunc(s.list, func(g *setting) bool { return g.Alone != "" && flagName(g.Name) == name })
		if isFlag && at >= 0 && (i == len(args)-1 || strings.HasPrefix(args[i+1], "-")) {
			args[i] = s.list[at].Alone
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
func (s *setting) resolve(env func(string) string) error {
	text := s.text
	if !s.given {
		text = cmp.Or(env(s.Name), env(s.Alias))
	}
	s.text, s.configured = s.Default, s.given || text != ""
	if !s.configured {
		return nil
	}
	canonical, err := s.Value.set(text)
	if err != nil {
		if s.Value.secret {
			text = "***"
		}
		return &SettingError{Name: s.Name, Value: text, Problem: err.Error(), Allowed: s.Value.allowed}
	}
	s.text = canonical
	return nil
}

// NoEffectWhen is the NoEffect of settings that have none while another has the given value, where "" means
// unset.
func (s *Settings) NoEffectWhen(name, value string) func() string {
	return func() string {
		switch {
		case s.Text(name) != value:
			return ""
		case value == "":
			return "while " + name + " is not set"
		}
		return "with " + name + "=" + value
	}
}

// warnNoEffect warns about settings that differ from their defaults without effect.
func (s *Settings) warnNoEffect(log *slog.Logger) {
	for _, g := range s.list {
		for _, idle := range g.idle {
			if why := idle(); why != "" && g.text != g.Default {
				log.Warn(g.Name + " has no effect " + why)
			}
		}
	}
}

// misplaced returns the faults of settings that are given with a command that they are not for.
func (s *Settings) misplaced(args []string) error {
	var all []error
	for _, g := range s.list {
		if g.Commands != nil && g.text != g.Default && (len(args) == 0 || !slices.Contains(g.Commands, args[0])) {
			all = append(all, s.Fault(g.Name, "is allowed only with "+strings.Join(g.Commands, " and "), ""))
		}
	}
	return errors.Join(all...)
}

// changed returns the names and values of the settings that differ from their defaults,
// as arguments of a log line. Secrets are masked.
func (s *Settings) changed() []any {
	var pairs []any
	for _, g := range s.list {
		switch {
		case g.text == g.Default:
		case g.Value.secret:
			pairs = append(pairs, g.Name, "***")
		default:
			pairs = append(pairs, g.Name, mask.Value(g.text))
		}
	}
	return pairs
}

// find returns the named setting, or nil.
func (s *Settings) find(name string) *setting {
	if i := slices.IndexFunc(s.list, func(g *setting) bool { return g.Name == name }); i >= 0 {
		return s.list[i]
	}
	return nil
}

// Given reports whether one of the settings was given to Parse, by flag or environment, even if with its
// default.
func (s *Settings) Given(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { g := s.find(name); return g != nil && g.configured })
}

// Changed reports whether a setting differs from its default.
func (s *Settings) Changed(name string) bool {
	g := s.find(name)
	return g != nil && g.text != g.Default
}

// Text returns the value of a setting after Parse in canonical form. It is empty for a
// setting that the program does not have.
func (s *Settings) Text(name string) string {
	if g := s.find(name); g != nil {
		return g.text
	}
	return ""
}

// Fault returns the error that a value is wrong together with others, or is missing.
func (s *Settings) Fault(name, problem, allowed string) error {
	value := s.Text(name)
	if g := s.find(name); g.Value.secret && value != "" {
		value = "***"
	}
	return &SettingError{Name: name, Value: value, Problem: problem, Allowed: allowed}
}

// FaultIf returns the Fault if the value is wrong.
func (s *Settings) FaultIf(wrong bool, name, problem, allowed string) error {
	if !wrong {
		return nil
	}
	return s.Fault(name, problem, allowed)
}

// Add registers settings. Their values are set to the defaults at once, and to what is given in Parse.
// A name that there is already, or a default that is not allowed, panics.
func (s *Settings) Add(rows SettingList) { s.AddWithNoEffect(nil, rows) }

// AddWithNoEffect is Add for settings that, in addition to their own, have one NoEffect in common.
func (s *Settings) AddWithNoEffect(noEffect func() string, rows SettingList) {
	for _, row := range rows {
		if s.find(row.Name) != nil {
			panic("bug: setting " + row.Name + " is registered twice")
		}
		if row.Default != "" {
			text, err := row.Value.set(row.Default)
			if err != nil {
				panic("bug: the default of " + row.Name + " " + err.Error())
			}
			row.Default = text
		}
		own := slices.DeleteFunc([]func() string{row.NoEffect, noEffect}, func(f func() string) bool { return f == nil })
		s.list = append(s.list, &setting{Setting: row, idle: own})
	}
}

// flagName returns the flag of a setting: TARGET_URL → target-url.
func flagName(setting string) string {
	return strings.ReplaceAll(strings.ToLower(setting), "_", "-")
}

// record records the text of a flag. It is checked later, in the order of the settings.
func (s *setting) record(text string) error {
	s.given, s.text = true, text
	return nil
}
