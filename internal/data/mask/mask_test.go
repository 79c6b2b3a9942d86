package mask

import (
	"strings"
	"testing"
)

func TestURLs(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "",
		"plain @ text? yes":                "plain @ text? yes",
		"sum(rate(x{a=\"b\"}[5m]))":        "sum(rate(x{a=\"b\"}[5m]))",
		"http://h":                         "http://h",
		"http://h:1/p":                     "http://h:1/p",
		"10.0.0.1:80,[::1]:80":             "10.0.0.1:80,[::1]:80",
		"header:X-Shop":                    "header:X-Shop",
		"http://u:p@h":                     "http://***@h",
		"http://u@h/":                      "http://***@h/",
		"http://u:p@x@h/":                  "http://***@h/",
		"http://a,https://u:p@h/?x=y,b":    "http://a,https://***@h/?x=***",
		"http://a,https://u:p@h/?x=y@z,b@": "http://a,https://***",
		"http://a?x=y, https://b?z":        "http://a?x=***, https://b?***",
		"http://h:90/?x=1&y=&z&w=2=3#f":    "http://h:90/?x=***&y=&***&w=***",
		"postgres:?password=p a ss":        "postgres:?password=***",
		"postgres://h/d?password=p,a":      "postgres://h/d?password=***",
		"postgres://u:pa/ss@h/d":           "postgres://***@h/d",
		"postgres://u:pa?ss@h/d":           "postgres://***",
		"postgres://u:1?2@h/d?a=b":         "postgres://***",
		"postgres://u:x/1?2@h/d":           "postgres://***",
		"user:p@host:6379":                 "user:***@host:6379",
		"http://h:90/?user=a@b":            "http://***",
		"file:/q?key=k":                    "file:/q?key=***",
		"/up?token=t":                      "/up?token=***",
		`A: "http://u:p@h?x=y" is "no"`:    `A: "http://***@h?x=***" is "no"`,
		`A: "http://h?x=\"y" is not`:       `A: "http://h?x=***" is not`,
		"A: `http://u:p@h`: wrong":         "A: `http://***@h`: wrong",
		`A_FILE: "/f" has a: b@c`:          `A_FILE: "/f" has a: b@c`,
		`A: "host=h password=x y" is "no"`: `A: "host=h password=***" is "no"`,
		"A: `x password = a:b@c`: wrong":   "A: `x password =***`: wrong",
		"password=":                        "password=",
	} {
		if got := URLs(text); got != want {
			t.Errorf("%s is shown as %s, want %s", text, got, want)
		}
	}
}

// In a value, unlike in a message, a quote or a comma may be part of a secret.
func TestValue(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "",
		"http://a:80,https://b:80":           "http://a:80,https://b:80",
		"http://u:p@a,b:80":                  "http://***@a,b:80",
		`rediss://h/0?password=ab"SECRET`:    "rediss://h/0?password=***",
		"rediss://h/0?password=ab`SECRET":    "rediss://h/0?password=***",
		"rediss://h/0?password=a,b://c":      "rediss://h/0?password=***",
		"rediss://h/0?password=a&b=c":        "rediss://h/0?password=***&b=***",
		`http://u:"p@h`:                      "http://***@h",
		"http://u:p,b://c@h":                 "http://***@h",
		"/up?token=\"t":                      "/up?token=***",
		"host=h user=u password=x":           "host=h user=u password=***",
		"host=h PASSWORD = 'a b' port=1":     "host=h PASSWORD =***",
		"host=h sslpassword=a":               "host=h sslpassword=***",
		"host=h password=a:c@SECRET":         "host=h password=***",
		"host=h:1 password=c@SECRET":         "host=h:***",
		"what?password=***SECRET":            "what?password=***",
		"http://u:SECRET password=x@h":       "http://***",
		`sum(rate(x{a="b",c="d:1"}[5m:1m]))`: `sum(rate(x{a="b",c="d:1"}[5m:1m]))`,
	} {
		if got := Value(text); got != want {
			t.Errorf("%s is shown as %s, want %s", text, got, want)
		}
	}
}

// No secret in the user, the password or a value is left, wherever a special character is in it.
func FuzzURLs(f *testing.F) {
	f.Add("s3", "cr3t")
	f.Add("s3@", "/cr3t")
	f.Add("s3\"", ",c://r3t")
	f.Fuzz(func(t *testing.T, a, b string) {
		const secret = "Z9SECRET"
		if strings.Contains(a+b, secret) {
			return
		}
		messages := !strings.ContainsAny(a+b, "\"`,") // else the secret looks like the end of a URL
		for _, text := range []string{
			"http://u:" + a + secret + b + "@host/", "http://host/?x=1&password=" + strings.ReplaceAll(a, "&", "") + secret + b,
			"http://u:" + a + secret + b + "@host/?c=d", "postgres:?password=" + strings.ReplaceAll(a, "&", "") + secret,
			"host=h password=" + a + secret + b,
		} {
			if got := Value(text); strings.Contains(got, secret) {
				t.Errorf("the value %s is shown as %s", text, got)
			}
			if got := URLs(text); messages && strings.Contains(got, secret) {
				t.Errorf("%s is shown as %s", text, got)
			}
		}
	})
}
