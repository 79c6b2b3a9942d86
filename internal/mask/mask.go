// Package mask hides the secrets in URLs that are logged or shown.
package mask

import "strings"

// hidden replaces a secret.
const hidden = "***"

// URLs returns text with the secrets of its URLs hidden: user and password, and all values of the
// query, whatever their names, since any may be a password or a token. text is a URL, several
// that are comma separated, or a message that quotes them. Also hidden is what merely looks like
// a password, as in a URL that is wrong because a character of it is not escaped: too much is
// hidden rather than too little.
func URLs(text string) string {
	if strings.HasPrefix(text, "/") {
		return query(text) // a path and a query
	}
	var b strings.Builder
	for {
		at := scheme(text)
		if at < 0 {
			b.WriteString(text)
			return b.String()
		}
		end := at + length(text[at:])
		b.WriteString(text[:at])
		b.WriteString(query(user(text[at:end])))
		text = text[end:]
	}
}

// scheme returns where the part after the first scheme in text begins, or -1. A URL has no space
// after its scheme.
func scheme(text string) int {
	for i := 1; i < len(text)-1; i++ {
		if text[i] == ':' && alphanumeric(text[i-1]) && text[i+1] != ' ' && text[i+1] != '"' {
			return i + 1
		}
	}
	return -1
}

func alphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// length returns the length of the URL that u begins with, without its scheme: it ends at a quote
// that is not escaped, or at a comma before another URL.
func length(u string) int {
	for i := range len(u) {
		switch u[i] {
		case '"', '`':
			if i == 0 || u[i-1] != '\\' {
				return i
			}
		case ',':
			name, _, found := strings.Cut(strings.TrimLeft(u[i+1:], " "), "://")
			if found && name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz+") == "" {
				return i
			}
		}
	}
	return len(u)
}

// user hides user and password in a URL without its scheme, or all of it if a question mark may be
// part of the password.
func user(u string) string {
	rest, _ := strings.CutPrefix(u, "//")
	address, values, _ := strings.Cut(rest, "?")
	at := strings.LastIndexByte(address, '@')
	switch {
	case len(rest) < len(u) && strings.Contains(values, "@"):
		return u[:len(u)-len(rest)] + hidden
	case at >= 0:
		return u[:len(u)-len(rest)] + hidden + rest[at:]
	}
	return u
}

// query hides the values of a query.
func query(u string) string {
	address, values, asks := strings.Cut(u, "?")
	if !asks {
		return u
	}
	var b strings.Builder
	b.WriteString(address)
	separator := byte('?')
	for one := range strings.SplitSeq(values, "&") {
		b.WriteByte(separator)
		separator = '&'
		name, value, named := strings.Cut(one, "=")
		switch {
		case one == "" || named && value == "":
			b.WriteString(one)
		case named:
			b.WriteString(name + "=" + hidden)
		default:
			b.WriteString(hidden)
		}
	}
	return b.String()
}
