package service

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// String registers a string.
func (s *Settings) String(p *string, name, def, meaning string) {
	*p = def
	s.add(&setting{name: name, def: def, meaning: meaning, set: func(text string) (string, error) {
		*p = text
		return text, nil
	}})
}

// Secret registers a string that is never shown in the log or in -help. It has no
// default.
func (s *Settings) Secret(p *string, name, meaning string) {
	s.String(p, name, "", meaning)
	s.list[len(s.list)-1].secret = true
}

// Token registers a secret that is sent in Authorization: Bearer.
func (s *Settings) Token(p *string, name, meaning string) {
	s.add(&setting{name: name, meaning: meaning, secret: true, allowed: "visible ASCII characters",
		set: func(text string) (string, error) {
			// such as a line feed at the end of a Kubernetes secret
			if strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' }) {
				return "", errors.New("cannot be sent in a header field")
			}
			*p = text
			return text, nil
		}})
}

// Int registers an integer from min to max. math.MaxInt means no upper bound.
func (s *Settings) Int(p *int, name string, def, min, max int, meaning string) {
	*p = def
	amount[int]{min, max, math.MaxInt, strconv.Atoi, strconv.Itoa, "is not a whole number"}.add(s, p,
		&setting{name: name, def: strconv.Itoa(def), meaning: meaning})
}

// Float registers a number from min to max. math.Inf(1) means no upper bound.
func (s *Settings) Float(p *float64, name string, def, min, max float64, meaning string) {
	*p = def
	amount[float64]{min, max, math.Inf(1), parseFloat, formatFloat, "is not a number"}.add(s, p,
		&setting{name: name, def: formatFloat(def), meaning: meaning})
}

// Duration registers a duration from min to max, written like 100ms, 30s or 1h30m.
// math.MaxInt64 means no upper bound.
func (s *Settings) Duration(p *time.Duration, name string, def, min, max time.Duration, meaning string) {
	*p = def
	s.OptionalDuration(p, name, min, max, meaning)
	s.list[len(s.list)-1].def = formatDuration(def)
}

// OptionalDuration is Duration without a default: *p is unchanged if no value is given.
func (s *Settings) OptionalDuration(p *time.Duration, name string, min, max time.Duration, meaning string) {
	amount[time.Duration]{min, max, math.MaxInt64, time.ParseDuration, formatDuration,
		"is not a duration such as 250ms, 30s or 5m"}.add(
		s, p, &setting{name: name, meaning: meaning})
}

// Bytes registers an amount of memory from min to max bytes, written as a number or with
// a unit, like 65536, 64KiB or 1MB. math.MaxInt64 means no upper bound.
func (s *Settings) Bytes(p *int64, name string, def, min, max int64, meaning string) {
	*p = def
	amount[int64]{min, max, math.MaxInt64, parseBytes, formatBytes,
		"is not a number of bytes such as 65536, 64KiB or 1MB"}.add(
		s, p, &setting{name: name, def: formatBytes(def), meaning: meaning})
}

// An amount describes a numeric setting.
type amount[T cmp.Ordered] struct {
	min, max T
	endless  T // a max that means no bound
	parse    func(string) (T, error)
	format   func(T) string
	problem  string // of a text that parse refuses, unless its number is out of range
}

// add registers g, whose value goes to p.
func (a amount[T]) add(s *Settings, p *T, g *setting) {
	g.allowed = "at least " + a.format(a.min)
	if a.max != a.endless {
		g.allowed = a.format(a.min) + " … " + a.format(a.max)
	}
	g.set = func(text string) (string, error) {
		v, err := a.parse(text)
		switch {
		case errors.Is(err, strconv.ErrRange), err == nil && !(v >= a.min && v <= a.max): // also for NaN
			return "", errors.New("is out of range")
		case err != nil:
			return "", errors.New(a.problem)
		}
		*p = v
		return a.format(v), nil
	}
	s.add(g)
}

// Bool registers a switch, whose flag may have no value.
func (s *Settings) Bool(p *bool, name string, def bool, meaning string) {
	*p = def
	s.add(&setting{
		name: name, def: strconv.FormatBool(def), meaning: meaning, allowed: "true, false", boolean: true,
		set: func(text string) (string, error) {
			b, err := strconv.ParseBool(text)
			if err != nil {
				return "", errors.New("is neither true nor false")
			}
			*p = b
			return strconv.FormatBool(b), nil
		}})
}

// Enum registers a choice of words.
func (s *Settings) Enum(p *string, name, def string, allowed []string, meaning string) {
	*p = def
	s.Word(name, def, allowed, meaning, func(word string) error {
		*p = word
		return nil
	})
}

// Choices are the values of a Choice, by their words.
type Choices struct {
	words []string
	set   func(word string) error
}

// Among returns the choice of one of some values, which is stored in *p.
func Among[T fmt.Stringer](p *T, values ...T) Choices {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = v.String()
	}
	return Choices{words, func(word string) error { *p = values[slices.Index(words, word)]; return nil }}
}

// Choice registers a choice of values.
func (s *Settings) Choice(name, def, meaning string, among Choices) {
	_ = among.set(def)
	s.Word(name, def, among.words, meaning, among.set)
}

// Func registers a setting that the program parses itself. Parse calls set with the given
// text, otherwise with def, and not at all if that is empty. Its error completes the
// sentence "NAME: "text" …; allowed: …".
func (s *Settings) Func(name, def, meaning, allowed string, set func(string) error) {
	s.add(&setting{
		name: name, def: def, meaning: meaning, allowed: allowed, always: true,
		set: func(text string) (string, error) {
			if text == "" {
				return "", nil
			}
			return text, set(text)
		}})
}

// Word registers a choice of words that set converts. It is called as that of Func.
func (s *Settings) Word(name, def string, allowed []string, meaning string, set func(string) error) {
	s.add(&setting{
		name: name, def: def, meaning: meaning, allowed: strings.Join(allowed, ", "), always: true,
		set: func(word string) (string, error) {
			switch {
			case word == "" && def == "":
				return "", nil
			case !slices.Contains(allowed, word):
				return "", errors.New("is unknown")
			}
			return word, set(word)
		}})
}

func parseFloat(text string) (float64, error) {
	f, err := strconv.ParseFloat(text, 64)
	if math.IsInf(f, 0) {
		err = strconv.ErrRange
	}
	return f, err
}

// formatFloat formats f without an exponent unless that would be too long.
func formatFloat(f float64) string {
	if size := math.Abs(f); f != 0 && (size < 1e-9 || size >= 1e15) {
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// formatDuration formats d without zero parts: 3m, not 3m0s.
func formatDuration(d time.Duration) string {
	return strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace(d.String())
}

// A byteUnit is a unit of memory. "B" and "" are one byte.
type byteUnit struct {
	name string
	size int64
}

// byteUnits returns the units, largest first.
func byteUnits() []byteUnit {
	return []byteUnit{
		{"TiB", 1 << 40}, {"TB", 1e12}, {"GiB", 1 << 30}, {"GB", 1e9},
		{"MiB", 1 << 20}, {"MB", 1e6}, {"KiB", 1 << 10}, {"KB", 1e3}, {"kB", 1e3},
	}
}

// parseBytes parses an amount such as 65536, 64KiB or 1MB.
func parseBytes(text string) (int64, error) {
	number, size := strings.TrimSuffix(text, "B"), int64(1)
	for _, u := range byteUnits() {
		if before, ok := strings.CutSuffix(text, u.name); ok {
			number, size = strings.TrimSpace(before), u.size
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if n > math.MaxInt64/size || n < math.MinInt64/size {
		err = strconv.ErrRange
	}
	return n * size, err
}

// formatBytes formats n with the largest unit that divides it.
func formatBytes(n int64) string {
	for _, u := range byteUnits() {
		if n != 0 && n%u.size == 0 {
			return fmt.Sprintf("%d%s", n/u.size, u.name)
		}
	}
	return strconv.FormatInt(n, 10)
}
