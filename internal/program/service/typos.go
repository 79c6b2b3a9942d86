package service

import (
	"log/slog"
	"slices"
	"strings"
)

// misspeltFrom is the length from which a setting's name is unlikely to resemble an
// unrelated variable.
const misspeltFrom = 8

// warnMisspelt warns about environment variables that are not settings but differ from
// one by a letter or an underscore, by case, or by two swapped letters.
func (s *Settings) warnMisspelt(log *slog.Logger, environ []string) {
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		if value == "" || s.knows(name) {
			continue
		}
		if meant := s.nearest(name); meant != "" {
			log.Warn("An environment variable is not a setting but resembles one", "variable", name, "setting", meant)
		}
	}
}

func (s *setting) names() []string { return []string{s.Name, s.Alias}[:1+min(len(s.Alias), 1)] }

// knows reports whether name is the name of a setting.
func (s *Settings) knows(name string) bool {
	return slices.ContainsFunc(s.list, func(g *setting) bool { return slices.Contains(g.names(), name) })
}

// nearest returns the setting that name is a misspelling of, or "".
func (s *Settings) nearest(name string) string {
	for _, g := range s.list {
		for _, known := range g.names() {
			if len(known) >= misspeltFrom && (oneOff(name, known) || strings.EqualFold(name, known)) {
				return known
			}
		}
	}
	return ""
}

// oneOff reports whether two names differ by one letter or underscore that is missing or
// replaced, or by two swapped neighbours.
func oneOff(a, b string) bool {
	if len(a) < len(b) {
		a, b = b, a
	}
	i := 0
	for i < len(b) && a[i] == b[i] {
		i++
	}
	if i == len(a) || !wordy(a[i]) {
		return false
	}
	if len(a) == len(b) {
		swapped := i+1 < len(a) && a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
		return wordy(b[i]) && (swapped || a[i+1:] == b[i+1:])
	}
	return a[i+1:] == b[i:]
}

func wordy(c byte) bool { return c == '_' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' }
