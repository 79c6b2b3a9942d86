package admin

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"weir/internal/data/strict"
	"weir/proxy/rules/keys"
)

// readValue parses the values of a key in JSON: a list of strings and null, or one of
// these. Nothing means no values.
func readValue(raw strict.Raw) (values []*string, err error) {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0:
		return nil, nil
	case raw[0] == '[':
		if err := strict.Decode(raw, &values); err != nil {
			return nil, fmt.Errorf(
				"must be a list of strings or null, such as [\"acme\",null]; a value that begins with [ must be in a list: %w", err)
		}
		return values, nil
	}
	var only *string
	if err := strict.Decode(raw, &only); err != nil {
		return nil, errors.New("must be a string, or a list of strings and null")
	}
	return []*string{only}, nil
}

// keyOf returns the key of requests with these values, for a rule whose key has these
// parts.
func keyOf(parts []keys.Part, values []*string) (key []byte, err error) {
	if len(values) != len(parts) {
		words := make([]string, len(parts))
		for i, p := range parts {
			words[i] = p.String()
		}
		return nil, fmt.Errorf("must have %d values, one for each part of the rule's key [%s], has %d", len(parts),
			strings.Join(words, " "), len(values))
	}
	for i, value := range values {
		if value == nil {
			key = keys.AppendMissingPart(key)
			continue
		}
		text, err := unescape(*value)
		if err == nil {
			text, err = parts[i].Normal(text)
		}
		if err != nil {
			return nil, strict.WithPath("["+strconv.Itoa(i)+"]", err)
		}
		if parts[i].Secret() {
			key = keys.AppendSecret(key, text)
		} else {
			key = keys.AppendPart(key, text)
		}
	}
	return key, nil
}

// valuesOf returns the values of a key in a form for people, escaped; nil stands for a
// missing one. If the key was cut, the last value is incomplete.
func valuesOf(key []byte) []*string {
	values := []*string{}
	for len(key) > 0 {
		var value []byte
		if value, key = keys.CutPart(key); value == nil {
			values = append(values, nil)
			continue
		}
		word := escape(value)
		values = append(values, &word)
	}
	return values
}

// escape writes a value as text that unescape reads: visible characters and spaces
// unchanged, \\ for a backslash, and \xff for any other byte.
func escape(value []byte) string {
	var b strings.Builder
	for len(value) > 0 {
		r, n := utf8.DecodeRune(value)
		switch {
		case r == '\\':
			b.WriteString(`\\`)
		case r == utf8.RuneError && n == 1 || !unicode.IsPrint(r):
			for _, c := range value[:n] {
				fmt.Fprintf(&b, `\x%02x`, c)
			}
		default:
			b.Write(value[:n])
		}
		value = value[n:]
	}
	return b.String()
}

// unescape is the inverse of escape.
func unescape(text string) ([]byte, error) {
	value := make([]byte, 0, len(text))
	for {
		before, after, found := strings.Cut(text, `\`)
		value = append(value, before...)
		switch {
		case !found:
			return value, nil
		case strings.HasPrefix(after, `\`):
			value, text = append(value, '\\'), after[1:]
		case len(after) >= 3 && after[0] == 'x':
			c, err := strconv.ParseUint(after[1:3], 16, 8)
			if err != nil {
				return nil, errEscape
			}
			value, text = append(value, byte(c)), after[3:]
		default:
			return nil, errEscape
		}
	}
}

var errEscape = errors.New(`must have \\ for a backslash, or \x and two hexadecimal digits for a byte`)
