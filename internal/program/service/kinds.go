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

// A Value is where the value of a setting is stored, and what is allowed.
type Value struct {
	allowed string // for messages; empty if anything is allowed
	boolean bool   // the flag may have no value
	secret  bool   // the value is never shown
	// set stores a value and returns it in canonical form, or what is wrong with it.
	set func(text string) (canonical string, err error)
}

// String is any text.
func String(p *string) Value {
	return Value{set: func(text string) (string, error) { *p = text; return text, nil }}
}

// Secret is a text that is never shown in the log or in -help.
func Secret(p *string) Value {
	return Hidden(String(p))
}

// Hidden is a value that is never shown in the log or in -help.
func Hidden(v Value) Value {
	v.secret = true
	return v
}

// BearerToken is a secret that is sent in Authorization: Bearer.
func BearerToken(p *string) Value {
	v := Func(p, "visible ASCII characters", func(text string) (string, error) {
		// such as a line feed at the end of a Kubernetes secret
		if strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' }) {
			return "", errors.New("cannot be sent in a header field")
		}
		return text, nil
	})
	v.secret = true
	return v
}

// Int is an integer from min to max. math.MaxInt means no upper bound.
func Int[T int | int64](p *T, min, max T) Value {
	parse := func(text string) (T, error) { n, err := strconv.ParseInt(text, 10, 64); return T(n), err }
	format := func(n T) string { return strconv.FormatInt(int64(n), 10) }
	return amount[T]{min, max, math.MaxInt, parse, format, "is not a whole number"}.value(p)
}

// Float is a number from min to max. math.Inf(1) means no upper bound.
func Float(p *float64, min, max float64) Value {
	return amount[float64]{min, max, math.Inf(1), parseFloat, formatFloat, "is not a number"}.value(p)
}

// Duration is a duration from min to max, written like 100ms, 30s or 1h30m. math.MaxInt64 means no
// upper bound.
func Duration(p *time.Duration, min, max time.Duration) Value {
	const problem = "is not a duration such as 250ms, 30s or 5m"
	return amount[time.Duration]{min, max, math.MaxInt64, time.ParseDuration, formatDuration, problem}.value(p)
}

// Bytes is an amount of memory from min to max bytes, written as a number or with a unit, like 65536,
// 64KiB or 1MB. math.MaxInt means no upper bound.
func Bytes[T int | int64](p *T, min, max T) Value {
	const problem = "is not a number of bytes such as 65536, 64KiB or 1MB"
	parse := func(text string) (T, error) { n, err := parseBytes(text); return T(n), err }
	format := func(n T) string { return formatBytes(int64(n)) }
	return amount[T]{min, max, math.MaxInt, parse, format, problem}.value(p)
}

// An amount describes a numeric setting.
type amount[T cmp.Ordered] struct {
	min, max T
	endless  T // a max that means no bound
	parse    func(string) (T, error)
	format   func(T) string
	problem  string // of a text that parse refuses, unless its number is out of range
}

// value returns the Value that is stored in *p.
func (a amount[T]) value(p *T) Value {
	allowed := "at least " + a.format(a.min)
	if a.max != a.endless {
		allowed = a.format(a.min) + " … " + a.format(a.max)
	}
	return Value{allowed: allowed, set: func(text string) (string, error) {
		v, err := a.parse(text)
		switch {
		case errors.Is(err, strconv.ErrRange), err == nil && !(v >= a.min && v <= a.max): // also for NaN
			return "", errors.New("is out of range")
		case err != nil:
			return "", errors.New(a.problem)
		}
		*p = v
		return a.format(v), nil
	}}
}

// Bool is a switch, whose flag may have no value.
func Bool(p *bool) Value {
	return Value{allowed: "true, false", boolean: true, set: func(text string) (string, error) {
		b, err := strconv.ParseBool(text)
		if err != nil {
			return "", errors.New("is neither true nor false")
		}
		*p = b
		return strconv.FormatBool(b), nil
	}}
}

// Enum is one of some values. words are their names, separated by a comma and a space.
func Enum[T any](p *T, words string, values ...T) Value {
	names := strings.Split(words, ", ")
	return Value{allowed: words, set: func(word string) (string, error) {
		i := slices.Index(names, word)
		if i < 0 {
			return "", errors.New("is unknown")
		}
		*p = values[i]
		return word, nil
	}}
}

// StringEnum is one of some words, separated by a comma and a space.
func StringEnum(p *string, words string) Value { return Enum(p, words, strings.Split(words, ", ")...) }

// StringerEnum is one of some values that have names.
func StringerEnum[T fmt.Stringer](p *T, values ...T) Value {
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = v.String()
	}
	return Enum(p, strings.Join(names, ", "), values...)
}

// Func is what parse makes of a text. Its error completes the sentence "NAME: "text" …; allowed: …". An
// empty text stands for what *p has now.
func Func[T any](p *T, allowed string, parse func(string) (T, error)) Value {
	empty := *p
	return Value{allowed: allowed, set: func(text string) (string, error) {
		v, err := empty, error(nil)
		if text != "" {
			v, err = parse(text)
		}
		if err == nil {
			*p = v
		}
		return text, err
	}}
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
