package plan

import (
	"reflect"
	"strings"
	"testing"
)

func TestMaskedURL(t *testing.T) {
	for in, want := range map[string]string{
		"http://host/path":                         "http://host/path",
		"http://host:1":                            "http://host:1",
		"http://host/a?token=s3cret":               "http://host/a?token=***",
		"http://host/a?x=s3cret&y=s3cret&flag=":    "http://host/a?x=***&y=***&flag=",
		"http://host/a?s3cret":                     "http://host/a?***",
		"http://host/a?x=1?s3cret":                 "http://host/a?x=***",
		"http://host/a?x=1&&s3cret":                "http://host/a?x=***&&***",
		"http://host?x=s3cret":                     "http://host?x=***",
		"http://host/a?":                           "http://host/a?",
		`http://host/a?x={{pick "s3cret" "b"}}`:    "http://host/a?x=***",
		`http://host/a?x=1&y={{pick "a&s3cret="}}`: "http://host/a?x=***&y=***",
		`http://host/a?{{pick "s3cret=1"}}`:        "http://host/a?***",
		`http://host/{{counter}}?x=s3cret`:         "http://host/{{counter}}?x=***",
		"http://u:s3cret@host/a":                   "http://***@host/a",
		"http://u:s3c@ret@host/a?x=s3cret":         "http://***@host/a?x=***",
		"u:s3cret@host":                            "u:***@host", // in an error
		"u:s3cret@host://x":                        "u:***@host://x",
	} {
		if got := maskedURL(in); got != want {
			t.Errorf("%s is shown as %s, want %s", in, got, want)
		}
	}
}

// Masked leaves the configuration as it is, from which the requests were made.
func TestMasked(t *testing.T) {
	const text = `"headers":{"Authorization":"a","x-auth-token":"b","X-Anything":"c","Content-TYPE":"text/plain","accept":"*/*"},` +
		`"method":"POST","query":{"token":"d","page":"1"},"body":"password=e"`
	c, again := parse(t, options(text)).Config, parse(t, options(text)).Config
	m := c.Masked().RequestOptions
	want := RequestOptions{
		Method: "POST", Timeout: 5, KeepAlive: true, Body: "***", Query: map[string]string{"token": "***", "page": "***"},
		Headers: map[string]string{"Authorization": "***", "x-auth-token": "***", "X-Anything": "***",
			"Content-TYPE": "text/plain", "accept": "*/*"},
	}
	if !reflect.DeepEqual(m, want) {
		t.Errorf("it is shown as %+v, want %+v", m, want)
	}
	if !reflect.DeepEqual(c, again) {
		t.Errorf("Masked has changed the configuration to %+v", c)
	}
}

func TestMaskedBytes(t *testing.T) {
	o := parse(t, options(`"method":"POST","bodyBase64":"AAAA"`)).Config.Masked().RequestOptions
	if o.Body != "" || o.BodyBase64 != "***" {
		t.Errorf("the body is shown as %q and %q", o.Body, o.BodyBase64)
	}
}

// Errors are logged, so they contain no values either.
func TestFaultsAreMasked(t *testing.T) {
	for _, config := range []string{
		with("limiterUrl", `"ftp://u:s3cret@host"`),
		with("limiterUrl", `"http://u:s3cret x@host"`),
		with("limiterUrl", `"http://host:0/?token=s3cret"`),
		with("limiterUrl", `"http://host/?token=s3cret x"`),
		with("limiterUrl", `"u:s3cret@host/"`),
		with("limiterUrl", `"http://{{counter}}/?token=s3cret"`),
		options(`"headers":{"Authorization":"s3cret\u0000"}`),
	} {
		if _, err := Parse(now, []byte(config), ""); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v, want an error without the secret", config, err)
		}
	}
}
