// Package mask hides the secrets in URLs that are logged or shown.
package mask

import (
	"regexp"
	"strings"
)

// hidden replaces a secret.
const hidden = "***"

// Value returns the value of a setting, which is a URL, several that are comma separated, or
// anything else, with its secrets hidden like those of [URLs]. Since a quote or a comma may be part
// of a secret, neither ends a URL: more may be hidden of the URLs after the first.
func Value(text string) string {
	at := max(scheme(text), 0)
	if at > 0 && text[0] != '/' {
		text = text[:at] + user(text[at:])
	}
	if at > 0 || strings.HasPrefix(text, "/") {
		text = query(text)
	}
	return passwords(text, func(rest string) int { return len(rest) })
}

// URLs returns text with the secrets of its URLs hidden: user and password, and all values of the
// query, whatever their names, since any may be a password or a token. Outside of URLs it hides
// what follows password=, as in host=h password=x. text is a message that quotes URLs, or URLs
// that are comma separated. A part that only looks like a password is hidden too, as in a URL
// with a character that should have been escaped: URLs hides too much rather than too little.
func URLs(text string) string {
	if strings.HasPrefix(text, "/") {
		return query(text) // a path and a query
	}
	var b strings.Builder
	for {
		at := scheme(text)
		if at < 0 {
			b.WriteString(text)
			return passwords(b.String(), quoted)
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
	end := quoted(u)
	for i := range end {
		if u[i] != ',' {
			continue
		}
		name, _, found := strings.Cut(strings.TrimLeft(u[i+1:], " "), "://")
		if found && name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz+") == "" {
			return i
		}
	}
	return end
}

// quoted returns the length of text up to a quote that is not escaped.
func quoted(text string) int {
	for i := range len(text) {
		if (text[i] == '"' || text[i] == '`') && (i == 0 || text[i-1] != '\\') {
			return i
		}
	}
	return len(text)
}

// assignment finds where a password is given its value.
var assignment = regexp.MustCompile(`(?i)password\s*=`)

// passwords hides what follows password= in text, up to the length that end returns of the rest,
// unless it is already hidden.
func passwords(text string, end func(rest string) int) string {
	var b strings.Builder
	for {
		found := assignment.FindStringIndex(text)
		if found == nil {
			b.WriteString(text)
			return b.String()
		}
		from := found[1]
		b.WriteString(text[:from])
		inQuery := found[0] > 0 && (text[found[0]-1] == '?' || text[found[0]-1] == '&')
		text = text[from:]
		if rest, is := strings.CutPrefix(text, hidden); inQuery && is &&
			(rest == "" || strings.ContainsRune("&\"`, ", rune(rest[0]))) {
			continue
		}
		if n := end(text); n > 0 {
			b.WriteString(hidden)
			text = text[n:]
		}
	}
}

// user hides user and password in a URL without its scheme, or all of it if a question mark, or an at
// sign after password=, may be part of the password.
func user(u string) string {
	rest, _ := strings.CutPrefix(u, "//")
	address, values, _ := strings.Cut(rest, "?")
	at := strings.LastIndexByte(address, '@')
	switch {
	case len(rest) < len(u) && strings.Contains(values, "@"), at >= 0 && assignment.MatchString(address[:at]):
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
