package refusal

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/internal/net/http1"
)

// reserved are the fields that the configuration of a refusal may not set, with * as a
// wildcard: those for framing and the connection, and those that the proxy sets itself.
var reserved = [...]string{
	"Connection", "Keep-Alive", "Proxy-*", "TE", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length",
	"Content-Encoding", "HTTP2-Settings",
	"Content-Type", "Content-Range", "Date", "Host", "Expect", "Via",
	"Retry-After", "X-RateLimit-*", "RateLimit", "RateLimit-*", "X-Weir-*", "X-Request-Id",
	"Access-Control-Allow-Origin", "Access-Control-Allow-Credentials", "Access-Control-Expose-Headers",
}

// Bounds of the fields of a refusal, and of one field.
const (
	fieldsMax     = 32
	fieldBytesMax = 2048
)

// CheckField reports why a refusal cannot have the field, or nil.
func CheckField(name, value string) error {
	switch {
	case !http1.IsToken(name):
		return fmt.Errorf("%.40q is not a field name", name)
	case slices.ContainsFunc(reserved[:], func(r string) bool { return covers(r, name) }):
		return fmt.Errorf("%s is set by the proxy itself", name)
	case len(name)+len(value) > fieldBytesMax:
		return fmt.Errorf("%.40s must be at most %d bytes, is %d", name, fieldBytesMax, len(name)+len(value))
	case strings.Trim(value, " \t") != value ||
		strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		return fmt.Errorf("the value of %s has control characters, or spaces around it", name)
	}
	return nil
}

// CheckFieldCount reports why a refusal cannot have n fields, or nil.
func CheckFieldCount(n int) error {
	if n > fieldsMax {
		return fmt.Errorf("must be at most %d, is %d", fieldsMax, n)
	}
	return nil
}

// Lines returns field lines in the order of names.
func Lines[V ~string](fields map[string]V) (lines []byte) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		lines = append(lines, name+": "+string(fields[name])+"\r\n"...)
	}
	return lines
}

// ParseFields parses the setting REFUSAL_FIELDS: "Name: value", separated by |. The
// result is that of [Lines].
func ParseFields(text string) ([]byte, error) {
	fields := make(map[string]string)
	seen := make(map[string]bool)
	for i, one := range strings.Split(text, "|") {
		name, value, ok := strings.Cut(one, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok {
			return nil, fmt.Errorf("field %d has no colon", i+1)
		}
		if err := CheckField(name, value); err != nil {
			return nil, err
		}
		lower := strings.ToLower(name)
		if seen[lower] {
			return nil, fmt.Errorf("%s is given twice", name)
		}
		fields[name], seen[lower] = value, true
	}
	return Lines(fields), CheckFieldCount(len(fields))
}

// covers reports whether a reserved name matches name.
func covers(reserved, name string) bool {
	prefix, open := strings.CutSuffix(reserved, "*")
	return strings.EqualFold(prefix, name) || open && len(name) >= len(prefix) &&
		strings.EqualFold(prefix, name[:len(prefix)])
}
