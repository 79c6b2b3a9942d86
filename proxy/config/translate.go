package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weir/internal/program/service"
)

// peer is the file name of the program whose environment the proxy can read.
const peer = "ratelimit"

// registerTranslation adds the setting that says whose environment is read.
func (c *Config) registerTranslation(s *service.Settings) {
	var from string
	s.Add(service.SettingList{
		{Name: "SETTINGS_FROM", Default: "auto", Value: service.StringEnum(&from, "auto, weir, ratelimit"),
			Help: "whose environment variables are read: weir, or those of envoyproxy/ratelimit, with its ports and defaults; " +
				"auto: of envoyproxy/ratelimit if the program is started as ratelimit"},
	})
	isPeer := func(env func(string) string) bool {
		from := cmp.Or(s.Text("SETTINGS_FROM"), env("SETTINGS_FROM"))
		return from == peer || c.Program == peer && from != "weir"
	}
	s.Presets = func(env func(string) string) (map[string]string, string) {
		if !isPeer(env) {
			return nil, ""
		}
		return defaultsOfPeer(), "The environment is that of envoyproxy/ratelimit: docs/ratelimit.md says what its " +
			"variables mean.\nEvery setting is a flag, and also an environment variable if that program has none of its name."
	}
	s.Translate = func(env func(string) string) (func(string) string, map[string]string, error) {
		if !isPeer(env) {
			return env, nil, nil
		}
		t := translate(env)
		c.translated = t
		return t.read, t.from, t.err
	}
}

// EnvoyEnvironment reports whether the environment is read as that of envoyproxy/ratelimit.
func (c *Config) EnvoyEnvironment() bool { return c.translated != nil }

// A VariableTranslation is a line about a variable of another program's environment.
type VariableTranslation struct {
	Text    string
	Ignored bool // the variable has no effect
}

// Translations returns what was made of the variables of another program's environment.
func (c *Config) Translations() []VariableTranslation {
	if c.translated == nil {
		return nil
	}
	return c.translated.notes
}

// isTranslated reports whether a setting has the value that comes from another program's environment.
func (c *Config) isTranslated(setting string) bool {
	return c.translated != nil && c.settings.Text(setting) == c.translated.values[setting]
}

// Named returns the name that the user knows a setting by: that of the variables that it comes from, or, for the
// default of a port, that would set it.
func (c *Config) Named(setting string) string {
	if !c.isTranslated(setting) {
		return setting
	}
	return cmp.Or(c.translated.from[setting], portVariables[setting], setting)
}

// portVariables are the variables of ports that have defaults in place of envoyproxy/ratelimit.
var portVariables = map[string]string{"PORT": "DEBUG_PORT", "DECISION_PORT": "PORT"}

// lookAt returns the settings, or in place of envoyproxy/ratelimit the variables, that an error is about.
func (c *Config) lookAt(settings, variables string) string {
	if c.EnvoyEnvironment() {
		return variables
	}
	return settings
}

// A translation makes settings of the environment of envoyproxy/ratelimit.
//
// Owned by the goroutine that starts the program.
type translation struct {
	env      func(string) string
	values   map[string]string // of settings
	from     map[string]string // the variables that they come from
	notes    []VariableTranslation
	err      error
	variable string   // that is being read
	set      []string // the settings that it has set
}

// translate reads all variables.
func translate(env func(string) string) *translation {
	t := &translation{env: env, values: defaultsOfPeer(), from: make(map[string]string)}
	for _, v := range variables {
		value := env(v.name)
		if value == "" {
			continue
		}
		t.variable, t.set = v.name, nil
		if err := v.read(t, value); err != nil {
			t.err = errors.Join(t.err, err)
			continue
		}
		if names := slices.DeleteFunc(t.set, func(name string) bool { return name == v.name }); len(names) > 0 {
			t.readAs(strings.Join(names, ", "))
		}
	}
	return t
}

// readAs notes which settings the variable was read as.
func (t *translation) readAs(settings string) {
	t.notes = append(t.notes, VariableTranslation{Text: t.variable + " is read as " + settings})
}

// ignore notes that the variable has no effect, and why.
func (t *translation) ignore(why string) {
	t.notes = append(t.notes, VariableTranslation{Text: t.variable + " " + why, Ignored: true})
}

// put sets a setting to a value made of the variable.
func (t *translation) put(setting, value string) {
	t.values[setting] = value
	t.set = append(t.set, setting)
	switch from := t.from[setting]; {
	case setting == t.variable:
	case from == "":
		t.from[setting] = t.variable
	default:
		t.from[setting] = from + ", " + t.variable
	}
}

// read is the environment that settings are read from. Variables with names of settings that
// envoyproxy/ratelimit does not have override what its variables say.
func (t *translation) read(name string) string {
	own := t.env(name)
	switch {
	case own == "" || slices.ContainsFunc(variables, func(v variable) bool { return v.name == name }):
		return t.values[name]
	case strings.HasSuffix(name, "_PORT") && strings.Contains(own, "://"):
		why := name + " is ignored: Kubernetes sets it for a service of this name"
		t.notes = append(t.notes, VariableTranslation{why, true})
		return t.values[name]
	}
	return own
}

// on reports whether a variable is set to true, or another one has done so.
func (t *translation) on(variable string) bool {
	yes, err := strconv.ParseBool(cmp.Or(t.env(variable), t.values[variable]))
	return yes && err == nil
}

// wrong returns the error that the value of the variable is wrong.
func (t *translation) wrong(value, allowed, problem string, args ...any) error {
	return &service.SettingError{Name: t.variable, Value: value, Problem: fmt.Sprintf(problem, args...), Allowed: allowed}
}
