package refusal

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"weir/internal/test/testkit"
)

func TestTemplateFaults(t *testing.T) {
	for _, test := range []struct {
		form       Form
		text, want string
	}{
		{HTML, "a\nb {{nope}}", `line 2: {{"nope"}} is unknown; allowed: {{status}}, `},
		{Text, "a\n\n{{limit", `line 3: {{ without }}`},
		{JSON, "{\n \"a\": {{limit}},\n}", `line 3: does not become valid JSON: `},
		{JSON, `{"a": {{rule}}}`, `line 1: does not become valid JSON: `},
		{Text, "a\n\xff", "line 2: must be UTF-8"},
		{Text, strings.Repeat("x", templateBytesMax+1), "must be at most 65536 bytes, is 65537"},
		{Text, strings.Repeat("{{limit}}", placesMax+1), "line 1: more than 1000 parts"},
		{HTML, "{{ status }} }} { {", ""},
		{JSON, `{"retryAfter":{{retryAfter}},"rule":"{{rule}}","id":"{{requestId}}"}`, ""},
	} {
		_, err := ParseTemplate(test.form, []byte(test.text))
		if test.want == "" && err == nil {
			continue
		}
		if err == nil || !strings.HasPrefix(err.Error(), test.want) || test.want == "" {
			t.Errorf("%.40q: %v, want %s", test.text, err, test.want)
		}
	}
}

func TestEscapes(t *testing.T) {
	v := Values{Status: 429, Rule: `<a href="x">'&` + "\x00\n\\", RetryAfter: 3, Error: "e"}
	for f, want := range map[Form]string{
		HTML: `&#60;a href=&#34;x&#34;&#62;&#39;&#38;  \`,
		JSON: `<a href=\"x\">'&\u0000\u000a\\`,
		Text: `<a href="x">'&  \`,
	} {
		text := "{{rule}}"
		if f == JSON {
			text = `"{{rule}}"`
		}
		tpl := testkit.Must(ParseTemplate(f, []byte(text)))(t)
		if got := strings.Trim(string(tpl.Append(nil, &v)), `"`); got != want {
			t.Errorf("%v: %s, want %s", f, got, want)
		}
	}
}

func TestNewNamesFileAndLine(t *testing.T) {
	_, err := New(map[string][]byte{"default.html": []byte("a\n{{b}}"), "x.css": nil, "b c.html": nil})
	for _, want := range []string{"default.html: line 2: ", "x.css: must be named ", "b c.html: must be named "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A name without a form has that of the default.
func TestPick(t *testing.T) {
	p := testkit.Must(New(map[string][]byte{"default.html": []byte("D"), "partner.txt": []byte("P {{retryAfter}}")}))(t)
	for _, test := range []struct{ name, accept, kind, body string }{
		{"", "text/html", "text/html; charset=utf-8", "D"},
		{"", "text/plain", "application/json", ""},
		{"partner", "text/html", "text/html; charset=utf-8", "D"},
		{"partner", "text/plain", "text/plain; charset=utf-8", "P 7"},
		{"partner", "", "application/json", ""},
		{"gone", "text/html", "text/html; charset=utf-8", "D"},
	} {
		page := p.Pick(test.name, ParseAccept([]byte(test.accept)))
		body := ""
		if page.Template != nil {
			body = string(page.Template.Append(nil, &Values{RetryAfter: 7}))
		}
		if page.ContentType != test.kind || body != test.body || !page.Varies {
			t.Errorf("%v: %v, %q", test, page, body)
		}
	}
	plain := testkit.Must(New(nil))(t)
	if page := plain.Pick("", Accept{}); page.Varies || page.Template != nil {
		t.Errorf("an API client gets %v", page)
	}
	if page := plain.Pick("", ParseAccept([]byte("text/html"))); !page.Varies || page.Template == nil {
		t.Errorf("a browser gets %v", page)
	}
}

func TestFields(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"Cache-Control: no-store, private|X-Support: https://example.com/?a=b", ""},
		{"Retry-After: 1", "Retry-After is set by the proxy itself"},
		{"x-ratelimit-limit: 1", "x-ratelimit-limit is set by the proxy itself"},
		{"RateLimit-Policy: 1", "RateLimit-Policy is set by the proxy itself"},
		{"Content-Length: 1", "Content-Length is set by the proxy itself"},
		{"Transfer-Encoding: chunked", "Transfer-Encoding is set by the proxy itself"},
		{"Connection: close", "Connection is set by the proxy itself"},
		{"X-Weir-Decision: 1", "X-Weir-Decision is set by the proxy itself"},
		{"A b: 1", `"A b" is not a field name`},
		{"A: b\r\nC: d", "the value of A has control characters, or spaces around it"},
		{"A", `field 1 has no colon`},
		{"A: 1|a: 2", "a is given twice"},
		{"A: " + strings.Repeat("x", fieldBytesMax), "A must be at most 2048 bytes, is 2049"},
	} {
		_, err := ParseFields(test.text)
		if (err == nil) != (test.want == "") || err != nil && err.Error() != test.want {
			t.Errorf("%.40q: %v, want %s", test.text, err, test.want)
		}
	}
}

// Whatever the template and the values are: a template of JSON becomes JSON, and values
// bring no markup into HTML.
func FuzzTemplate(f *testing.F) {
	f.Add(`{"rule":"{{rule}}","after":{{retryAfter}}}`, `a"<b>\`+"\n", int64(3))
	f.Add(`{{status}}`, "x", int64(-1))
	f.Fuzz(func(t *testing.T, text, value string, after int64) {
		v := Values{Status: 429, Error: value, Rule: value, RetryAfter: after, Decision: []byte(value),
			RequestID: []byte(value)}
		if tpl, err := ParseTemplate(JSON, []byte(text)); err == nil && utf8.ValidString(value) {
			if body := tpl.Append(nil, &v); !json.Valid(body) {
				t.Errorf("%q with %q becomes %q", text, value, body)
			}
		}
		if tpl, err := ParseTemplate(HTML, []byte(text)); err == nil {
			none := v
			none.Error, none.Rule, none.Decision, none.RequestID = "", "", nil, nil
			body, without := string(tpl.Append(nil, &v)), string(tpl.Append(nil, &none))
			for _, c := range []string{"<", ">", `"`, "'"} {
				if strings.Count(body, c) != strings.Count(without, c) {
					t.Errorf("%q with %q becomes %q", text, value, body)
				}
			}
		}
	})
}
