package plan

import (
	"net/url"
	"strings"
	"time"

	"weir/internal/http1"
)

// A target is where requests go.
type target struct {
	host string // as in the Host field
	path string // escaped
	// query is that of the URL, as written
	query string
}

// target reads limiterUrl.
func (b *builder) target(text *string) (target, bool) {
	const path = "limiterUrl"
	if text == nil {
		b.fault(path, missing)
		return target{}, false
	}
	u, err := url.Parse(*text)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "":
		b.fault(path, "must be a URL like http://proxy:8082/api/test, is %q", *text)
	case u.Scheme == "https":
		b.fault(path, "https is not supported yet: must begin with http://, is %q", *text)
	case u.Scheme != "http":
		b.fault(path, "must begin with http://, is %q", *text)
	case u.User != nil:
		b.fault(path, "must not hold a user or password: send them in requestOptions.headers")
	case u.Fragment != "":
		b.fault(path, "must not have a fragment (#%s): it is never sent", u.Fragment)
	case u.Hostname() == "" || !validPort(u.Port()):
		b.fault(path, "must have a host and a port from 1 to 65535, is %q", *text)
	case strings.ContainsFunc(u.RawQuery, notInTarget):
		b.fault(path, "must not have spaces or control characters in its query, is %q", *text)
	default:
		b.plan.Config.LimiterURL = *text
		b.plan.Host, b.plan.Port = u.Hostname(), u.Port()
		if b.plan.Port == "" {
			b.plan.Port = "80"
		}
		t := target{host: u.Host, path: u.EscapedPath(), query: u.RawQuery}
		if t.path == "" {
			t.path = "/"
		}
		return t, true
	}
	return target{}, false
}

// validPort says whether a port that url.Parse accepted is one; none is.
func validPort(port string) bool {
	n := 0
	for _, c := range port {
		n = min(n*10+int(c-'0'), 1<<16)
	}
	return port == "" || n > 0 && n < 1<<16
}

func notInTarget(c rune) bool { return c <= ' ' || c >= 0x7f }

// options reads requestOptions.
func (b *builder) options(w *optionsWire) RequestOptions {
	if w == nil {
		w = &optionsWire{}
	}
	o := RequestOptions{
		Method: "GET", Headers: map[string]string{}, Query: map[string]string{},
		Body: w.Body, Timeout: timeoutDefault.Seconds(), KeepAlive: true,
	}
	if w.KeepAlive != nil {
		o.KeepAlive = *w.KeepAlive
	}
	if w.Timeout != nil {
		o.Timeout = b.seconds("requestOptions.timeout", w.Timeout, timeoutMin, timeoutMax)
	}
	if w.Method != nil {
		o.Method = *w.Method
	}
	b.method(&o)
	b.headers(w.Headers, &o)
	for _, name := range sortedKeys(w.Query) {
		o.Query[name] = w.Query[name]
		b.noTemplate(step("requestOptions.query", name), name+w.Query[name])
	}
	b.noTemplate("requestOptions.body", o.Body)

	p := b.plan
	p.Config.RequestOptions = o
	p.KeepAlive = o.KeepAlive
	p.Timeout = time.Duration(o.Timeout * float64(time.Second))
	return o
}

func (b *builder) method(o *RequestOptions) {
	m := http1.MethodOf([]byte(o.Method))
	if m == http1.MethodOther || m == http1.CONNECT {
		b.fault("requestOptions.method", "must be GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS or TRACE, is %q", o.Method)
	}
	if m == http1.TRACE && o.Body != "" {
		b.fault("requestOptions.body", "must be empty: TRACE has none")
	}
	b.plan.Method = m
}

// headers checks the fields that the user wants to send. Those that say how the
// message is framed are ours to write.
func (b *builder) headers(w map[string]string, o *RequestOptions) {
	seen := map[string]string{}
	for _, name := range sortedKeys(w) {
		value := w[name]
		path := step("requestOptions.headers", name)
		lower := strings.ToLower(name)
		switch {
		case name == "" || strings.ContainsFunc(name, notInName):
			b.fault(path, "the name must be of letters, digits and !#$%%&'*+-.^_`|~, is %q", name)
		case seen[lower] != "":
			b.fault(path, "is given twice: also as %s", seen[lower])
		case lower == "connection":
			b.fault(path, "is written by loadgen: use requestOptions.keepAlive")
		case lower == "content-length" || lower == "transfer-encoding" || lower == "upgrade" || lower == "expect" || lower == "te":
			b.fault(path, "must not be set: it would change where the message ends")
		case strings.ContainsFunc(value, notInValue):
			b.fault(path, "the value must not have control characters, is %q", value)
		}
		seen[lower] = name
		b.noTemplate(path, value)
		o.Headers[name] = value
	}
}

// noTemplate refuses {{…}}, so that it is not sent as it stands.
func (b *builder) noTemplate(path, text string) {
	if strings.Contains(text, "{{") {
		b.fault(path, "templates ({{…}}) are not supported yet")
	}
}

func notInName(c rune) bool {
	return c > '~' || !isAlphanumeric(byte(c)) && !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
}

func notInValue(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }

// appendRequest returns the request as it is sent, fields in the order of their
// names.
func appendRequest(t target, o RequestOptions) []byte {
	query := t.query
	for _, name := range sortedKeys(o.Query) {
		if query != "" {
			query += "&"
		}
		query += url.QueryEscape(name) + "=" + url.QueryEscape(o.Query[name])
	}
	path := t.path
	if query != "" {
		path += "?" + query
	}
	b := http1.AppendRequestLine(nil, []byte(o.Method), []byte(path))
	b = appendDefault(b, o, "Host", t.host)
	b = appendDefault(b, o, "User-Agent", "weir-loadgen")
	b = appendDefault(b, o, "Accept", "*/*")
	for _, name := range sortedKeys(o.Headers) {
		b = http1.AppendFieldString(b, name, strings.Trim(o.Headers[name], " \t"))
	}
	if !o.KeepAlive {
		b = http1.AppendFieldString(b, "Connection", "close")
	}
	if o.Body != "" || o.Method == "POST" || o.Method == "PUT" || o.Method == "PATCH" {
		b = http1.AppendFieldInt(b, "Content-Length", int64(len(o.Body)))
	}
	b = http1.AppendHeadEnd(b)
	return append(b, o.Body...)
}

// appendDefault appends a field unless the user sets it.
func appendDefault(b []byte, o RequestOptions, name, value string) []byte {
	for have := range o.Headers {
		if strings.EqualFold(have, name) {
			return b
		}
	}
	return http1.AppendFieldString(b, name, value)
}
