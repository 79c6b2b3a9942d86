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
	} {
		if got := URLs(text); got != want {
			t.Errorf("%s is shown as %s, want %s", text, got, want)
		}
	}
}

// No secret in the user, the password or a value is left, wherever a special character is in it.
func FuzzURLs(f *testing.F) {
	f.Add("s3", "cr3t")
	f.Add("s3@", "/cr3t")
	f.Fuzz(func(t *testing.T, a, b string) {
		const secret = "Z9SECRET"
		if strings.ContainsAny(a+b, "\"`,") || strings.Contains(a+b, secret) {
			return // a secret that looks like the end of a URL
		}
		for _, text := range []string{
			"http://u:" + a + secret + b + "@host/", "http://host/?x=1&password=" + strings.ReplaceAll(a, "&", "") + secret + b,
			"http://u:" + a + secret + b + "@host/?c=d", "postgres:?password=" + strings.ReplaceAll(a, "&", "") + secret,
		} {
			if got := URLs(text); strings.Contains(got, secret) {
				t.Errorf("%s is shown as %s", text, got)
			}
		}
	})
}
