package plan

import (
	"maps"
	"slices"
	"strings"

	"weir/internal/data/mask"
)

// hidden replaces a value that may be a credential or personal data.
const hidden = "***"

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
		o.Query[name] = hidden
	}
	for name := range o.Headers {
		if !slices.Contains(harmless[:], strings.ToLower(name)) {
			o.Headers[name] = hidden
		}
	}
	for _, body := range []*string{&o.Body, &o.BodyBase64} {
		if *body != "" {
			*body = hidden
		}
	}
	return c
}

// maskedURL returns limiterUrl without user and password, and without the values of its query.
// Of a query with templates, which may contain any character, it keeps the names before the
// first one.
func maskedURL(text string) string {
	site, rest := cutSite(text)
	path, query, found := strings.Cut(rest, "?")
	if !found {
		return mask.Value(site) + path
	}
	if before, _, templates := strings.Cut(query, "{{"); templates {
		query = before + "{" // a value
	}
	return mask.Value(site) + path + strings.TrimPrefix(mask.Value("/?"+query), "/")
}
