package refusal

import (
	"strings"
	"testing"
)

func TestAccept(t *testing.T) {
	const firefox = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	for _, test := range []struct {
		accept string
		want   Form // of JSON and HTML
		all    Form // of all three
	}{
		{"", JSON, JSON},
		{"*/*", JSON, JSON},
		{"application/json", JSON, JSON},
		{"application/json, text/javascript, */*; q=0.01", JSON, JSON},
		{"application/json, text/plain, */*", JSON, JSON},
		{firefox, HTML, HTML},
		{"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7", HTML, HTML},
		{"image/avif,image/webp,image/png,image/svg+xml,image/*;q=0.8,*/*;q=0.5", JSON, JSON},
		{"text/css,*/*;q=0.1", JSON, JSON},
		{"text/plain", JSON, Text},
		{"text/plain, */*;q=0.5", JSON, Text},
		{"text/*", HTML, HTML},
		{"text/*;q=0.4, application/*;q=0.5", JSON, JSON},
		{"text/html;q=0, */*", JSON, JSON},
		{"text/html;q=0, text/*", JSON, Text},
		{"text/html;q=0.5, application/json;q=0.4", HTML, HTML},
		{"text/html;level=1;q=0.5, application/json;q=0.6", JSON, JSON},
		{"TEXT/HTML", HTML, HTML},
		{" text/html ; q=1.000 ", HTML, HTML},
		{"text/html;q=1.001, application/json;q=0.1", JSON, JSON}, // malformed: passed over
		{"text/html;q=, application/json;q=0.1", JSON, JSON},
		{"text/html;q=-1", JSON, JSON},
		{",,;;=,text/html", HTML, HTML},
		{strings.Repeat("text/html,", 200), JSON, JSON}, // no browser's
	} {
		a := ParseAccept([]byte(test.accept))
		if got := a.pick(&[forms]bool{true, true, false}); got != test.want {
			t.Errorf("%.60q: %v of JSON and HTML, want %v", test.accept, got, test.want)
		}
		if got := a.pick(&[forms]bool{true, true, true}); got != test.all {
			t.Errorf("%.60q: %v of all, want %v", test.accept, got, test.all)
		}
	}
}

func BenchmarkParseAccept(b *testing.B) {
	for _, accept := range []string{"*/*", "application/json",
		"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"} {
		b.Run(accept[:3], func(b *testing.B) {
			value := []byte(accept)
			b.ReportAllocs()
			for b.Loop() {
				ParseAccept(value)
			}
		})
	}
}
