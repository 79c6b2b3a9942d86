package plan

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"weir/internal/data/strict"
	"weir/internal/net/http1"
)

// options parses the requestOptions that are not sent as they are.
func (b *builder) options(o *RequestOptions) {
	b.plan.GRPC = o.GRPC
	if o.GRPC && !b.has("requestOptions", "method") {
		o.Method = "POST"
	}
	b.Check(o.GRPC && o.Method != "POST", "requestOptions.method", "must be POST with gRPC, is %q", o.Method)
	b.plan.KeepAlive, b.plan.Timeout = o.KeepAlive, b.seconds("requestOptions.timeout", o.Timeout, timeoutMin, timeoutMax)
	m := http1.MethodOf([]byte(o.Method))
	if m == http1.MethodOther || m == http1.CONNECT {
		b.Fault("requestOptions.method", "must be GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS or TRACE, is %q", o.Method)
	}
	b.Check(m == http1.TRACE && o.Body != "", "requestOptions.body", "must be empty: TRACE has none")
	b.Check(m == http1.TRACE && o.BodyBase64 != "", "requestOptions.bodyBase64", "must be empty: TRACE has none")
	b.plan.Method = m
}

func (b *builder) request(host string, target []segment) Request {
	o := &b.plan.Config.RequestOptions
	var h head
	h.text(o.Method + " ")
	h.add(target)
	b.query(&h, o.Query, hasQuery(target))
	h.text(" HTTP/1.1\r\n")
	b.headers(&h, o.Headers, host)
	if !o.KeepAlive {
		h.text("Connection: close\r\n")
	}
	body := b.body(o)
	switch {
	case o.GRPC:
		h.text("TE: trailers\r\n")
	case len(body) > 0 || o.Method == "POST" || o.Method == "PUT" || o.Method == "PATCH":
		h.text("Content-Length: ")
		h.add([]segment{{kind: segmentLength}})
		h.text("\r\n")
	}
	h.text("\r\n")
	if o.GRPC {
		h.add([]segment{{kind: segmentPrefix}})
	}
	r := Request{head: h.segments, body: body, seed: uint64(b.plan.Config.Seed)}
	if !changes(r.head) && !changes(r.body) {
		r.whole = r.append(nil, 0)
	}
	return r
}

// body returns the body: a text with templates, or any bytes.
func (b *builder) body(o *RequestOptions) []segment {
	const path = "requestOptions.bodyBase64"
	if o.BodyBase64 == "" {
		return b.compile("requestOptions.body", o.Body)
	}
	b.Check(o.Body != "", path, "must be empty: there is requestOptions.body")
	p, err := base64.StdEncoding.DecodeString(o.BodyBase64)
	b.Check(err != nil, path, "must be base64 with padding: %v", err)
	return []segment{{text: p}}
}

func (b *builder) compile(path, text string) []segment {
	segments, err := b.compiler.compile(text)
	b.Check(err != nil, path, "%v", err)
	return segments
}

// query appends the parameters to the target, which may already have some.
func (b *builder) query(h *head, w map[string]string, some bool) {
	for _, name := range sortedKeys(w) {
		path := strict.MemberPath("requestOptions.query", name)
		if i := strings.Index(name, "{{"); i >= 0 {
			b.Fault(path, "column %d: templates are for values, not for names", utf8.RuneCountInString(name[:i])+1)
		}
		separator := "?"
		if some {
			separator = "&"
		}
		some = true
		h.text(separator + url.QueryEscape(name) + "=")
		h.add(mapped(b.compile(path, w[name]), url.QueryEscape))
	}
}

func hasQuery(target []segment) bool {
	return slices.ContainsFunc(target, func(s segment) bool {
		return s.kind == segmentLiteral &&
			bytes.Contains(s.text, []byte("?"))
	})
}

// headers appends the fields that the user wants to send, after those that are usual. Fields for
// framing are written by the generator.
func (b *builder) headers(h *head, w map[string]string, host string) {
	names := sortedKeys(w)
	last := [2]string{"Accept", "*/*"}
	if b.plan.GRPC {
		last = [2]string{"Content-Type", "application/grpc"}
	}
	for _, usual := range [][2]string{{"Host", host}, {"User-Agent", "weir-loadgen"}, last} {
		if !slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, usual[0]) }) {
			h.text(usual[0] + ": " + usual[1] + "\r\n")
		}
	}
	seen := map[string]string{}
	for _, name := range names {
		value := strings.Trim(w[name], " \t")
		path := strict.MemberPath("requestOptions.headers", name)
		low := strings.ToLower(name)
		switch {
		case !http1.IsToken(name):
			b.Fault(path, "the name must be of letters, digits and !#$%%&'*+-.^_`|~, is %q", name)
		case seen[low] != "":
			b.Fault(path, "is given twice: also as %s", seen[low])
		case low == "connection":
			b.Fault(path, "is written by loadgen: use requestOptions.keepAlive")
		case low == "content-length" || low == "transfer-encoding" || low == "upgrade" || low == "expect" || low == "te":
			b.Fault(path, "must not be set: it would change where the message ends")
		}
		seen[low] = name
		// Whatever a template inserts stands in the text, so that nothing can
		// begin another field (RFC 9110 5.5).
		if i := strings.IndexFunc(value, notInValue); i >= 0 {
			b.Fault(path, "column %d: the value must not have control characters, has %q", utf8.RuneCountInString(value[:i])+
				1, value[i:i+1])
			continue
		}
		h.text(name + ": ")
		h.add(b.compile(path, value))
		h.text("\r\n")
	}
}

func notInValue(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }

// target parses limiterUrl, and returns what is sent of it: the host and the target.
func (b *builder) target(text string) (host string, target []segment) {
	const path = "limiterUrl"
	site, rest := cutSite(text)
	u, err := url.Parse(site)
	shown := maskedURL(text)
	switch {
	case !b.has(path):
		b.Fault(path, missing)
	case strings.Contains(site, "{{"):
		b.Fault(path, "templates are allowed in the path and the query only, in %q", shown)
	case err != nil || u.Host == "" || u.Opaque != "":
		b.Fault(path, "must be a URL like http://proxy:8082/api/test, is %q", shown)
	case u.Scheme != "http" && u.Scheme != "https":
		b.Fault(path, "must begin with http:// or https://, is %q", shown)
	case u.User != nil:
		b.Fault(path, "must not hold a user or password: send them in requestOptions.headers")
	case u.Hostname() == "" || !validPort(u.Port()):
		b.Fault(path, "must have a host and a port from 1 to 65535, is %q", shown)
	default:
		b.plan.Host, b.plan.Secure = u.Hostname(), u.Scheme == "https"
		b.plan.Port = cmp.Or(u.Port(), map[bool]string{false: "80", true: "443"}[b.plan.Secure])
		return u.Host, b.templatedTarget(rest, len(site))
	}
	return "", nil
}

// cutSite splits a URL after its host and port.
func cutSite(text string) (site, rest string) {
	if _, behind, found := strings.Cut(text, "://"); found {
		if n := strings.IndexAny(behind, "/?#"); n >= 0 {
			n += len(text) - len(behind)
			return text[:n], text[n:]
		}
	}
	return text, ""
}

// templatedTarget returns the path and query of a URL, which may contain templates and
// begin after the given number of bytes. What templates insert is escaped; a slash in a
// path is not.
func (b *builder) templatedTarget(rest string, behind int) []segment {
	const path = "limiterUrl"
	segments, err := b.compiler.compile(rest)
	if err != nil {
		if e, ok := errors.AsType[*templateError](err); ok {
			e.column += behind
		}
		b.Fault(path, "%v", err)
		return nil
	}
	var h head
	if !strings.HasPrefix(rest, "/") {
		h.text("/")
	}
	query := false
	for _, s := range segments {
		before, after, found := strings.Cut(string(s.text), "?")
		switch {
		case strings.Contains(string(s.text), "#"):
			b.Fault(path, "must not have a fragment (#): it is never sent")
		case s.kind != segmentLiteral && query:
			h.add(mapped([]segment{s}, url.QueryEscape))
		case s.kind != segmentLiteral:
			h.add(mapped([]segment{s}, escapePath))
		case query:
			h.text(b.plainQuery(string(s.text)))
		default:
			h.text(b.plainPath(before))
			if found {
				query = true
				h.text("?" + b.plainQuery(after))
			}
		}
	}
	return h.segments
}

// plainPath returns a literal part of a path as it is sent.
func (b *builder) plainPath(text string) string {
	u, err := url.Parse("http://host/" + text)
	if err != nil || strings.ContainsAny(text, "\x00\r\n") {
		b.Fault("limiterUrl", "must have a well-formed path, has %q", text)
		return ""
	}
	return strings.TrimPrefix(u.EscapedPath(), "/")
}

// plainQuery returns a literal part of a query as it is sent.
func (b *builder) plainQuery(text string) string {
	b.Check(strings.ContainsFunc(text, notInTarget), "limiterUrl",
		"must not have spaces or control characters in its query, is %q", maskedURL(b.plan.Config.LimiterURL))
	return text
}

func escapePath(text string) string { return (&url.URL{Path: text}).EscapedPath() }

// validPort reports whether a port that url.Parse accepted is valid; a missing one is.
func validPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil && n > 0
}

func notInTarget(c rune) bool { return c <= ' ' || c >= 0x7f }
