package plan

import (
	"maps"
	"slices"
	"strings"
)

// mask replaces a value that may be a credential or personal data.
const mask = "***"

// harmless are the fields whose values Masked keeps: they say what is sent and accepted, not
// who sends it.
var harmless = [...]string{
	"accept", "accept-charset", "accept-encoding", "accept-language", "cache-control", "content-encoding",
	"content-language", "content-type", "host", "pragma", "range", "user-agent",
}

// Masked returns the configuration as it may be shown to everybody: without the values of the
// query, of the body, and of all fields that are not known to be harmless.
func (c Config) Masked() Config {
	c.LimiterURL = maskedURL(c.LimiterURL)
	o := &c.RequestOptions
	o.Query, o.Headers = maps.Clone(o.Query), maps.Clone(o.Headers)
	for name := range o.Query {
		o.Query[name] = mask
	}
	for name := range o.Headers {
		if !slices.Contains(harmless[:], strings.ToLower(name)) {
			o.Headers[name] = mask
		}
	}
	if o.Body != "" {
		o.Body = mask
	}
	return c
}

// maskedURL returns limiterUrl without user and password, and without the values of its query.
// Of a query with templates, which may contain any character, it keeps the names before the
// first one.
func maskedURL(text string) string {
	site, rest := cutSite(text)
	if at := strings.LastIndexByte(site, '@'); at >= 0 {
		user := 0
		if i := strings.Index(site, "://"); i >= 0 && i < at {
			user = i + len("://")
		}
		site = site[:user] + mask + site[at:]
	}
	path, query, found := strings.Cut(rest, "?")
	if !found {
		return site + path
	}
	query, _, templates := strings.Cut(query, "{{")
	parts := strings.Split(query, "&")
	for i, part := range parts {
		if name, _, ok := strings.Cut(part, "="); ok {
			parts[i] = name + "=" + mask
		} else if part != "" || templates && i == len(parts)-1 {
			parts[i] = mask
		}
	}
	return site + path + "?" + strings.Join(parts, "&")
}
