package plan

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"weir/internal/data/strict"
	"weir/internal/test/testkit"
)

// render is what a template becomes for the requests of the given numbers.
func render(t *testing.T, text string, indices ...uint64) []string {
	t.Helper()
	var c compiler
	segments, err := c.compile(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	r := Request{body: segments, seed: 1}
	var all []string
	for _, i := range indices {
		all = append(all, string(r.Render(new([]byte), i)))
	}
	return all
}

func ExampleRequest_Render() {
	p, err := Parse(now, []byte(`{
		"limiterUrl": "http://proxy:8082/api/{{pick \"a\" \"b\"}}", "duration": 60,
		"profile": {"type": "constant", "params": {"rps": 100}},
		"requestOptions": {"method": "POST", "headers": {"X-Client-Id": "client-{{random 1 1000}}"}, "body": "{\"n\":{{counter}}}"}
	}`), "")
	if err != nil {
		panic(err)
	}
	for _, index := range []uint64{0, 1, 9} {
		lines := strings.Split(string(p.Request.Render(new([]byte), index)), "\r\n")
		fmt.Println(lines[0], "|", lines[4], "|", lines[5], "|", lines[7])
	}
	// Output:
	// POST /api/a HTTP/1.1 | X-Client-Id: client-575 | Content-Length: 7 | {"n":1}
	// POST /api/a HTTP/1.1 | X-Client-Id: client-84 | Content-Length: 7 | {"n":2}
	// POST /api/a HTTP/1.1 | X-Client-Id: client-503 | Content-Length: 8 | {"n":10}
}

func TestTemplates(t *testing.T) {
	for _, c := range []struct {
		text string
		want string // for request 41; empty: anything
	}{
		{"plain", "plain"},
		{"", ""},
		{"{ {} }", "{ {} }"},
		{"{{counter}}", "42"},
		{"a{{ counter }}b", "a42b"},
		{"{{counter}}{{counter}}", "4242"},
		{"{{random 7 7}}", "7"},
		{"{{random -3 -3}}", "-3"},
		{`{{pick "only"}}`, "only"},
		{`{{pick "{{"}}{{pick "}}"}}`, "{{}}"},
		{`{{pick "a\"b\\"}}`, `a"b\`},
		{`{{ pick "a""a" "a" }}`, "a"},
		{`{{pick ""}}`, ""},
		{"ä{{counter}}ö", "ä42ö"},
	} {
		if got := render(t, c.text, 41)[0]; got != c.want {
			t.Errorf("%s becomes %q, want %q", c.text, got, c.want)
		}
	}
}

// A template that is wrong is refused with its path and the column.
func TestTemplatesRefused(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"{{", `column 3: {{ must be followed by counter, random or pick; {{ itself is written {{pick "{{"}}`},
		{"ab{{}}", "column 5: {{ must be followed by counter"},
		{"ä{{count}}", `column 4: unknown template "count"; allowed: counter, random and pick`},
		{"{{Counter}}", `column 3: unknown template "Counter"`},
		{"{{counter", "column 1: the template is not closed by }}"},
		{"x{{counter }", "column 12: counter must be followed by }}"},
		{"{{counter 5}}", "column 11: counter must be followed by }}"},
		{"{{random}}", "column 9: the lowest number must be a whole number"},
		{"{{random 1}}", "column 11: the highest number must be a whole number"},
		{"{{random 1 2 3}}", "column 14: random LOW HIGH must be followed by }}"},
		{"{{random 2 1}}", "column 12: the highest number must not be below the lowest, 2"},
		{"{{random 0.5 1}}", "column 10: the lowest number"},
		{"{{random 1 9223372036854775808}}", "column 12: the highest number"},
		{"{{pick}}", `column 7: pick must be followed by a text in quotes, as in {{pick "a" "b"}}`},
		{"{{pick a b}}", "column 8: pick must be followed by a text in quotes"},
		{`{{pick "a}}`, "column 8: the text is not closed by a quote"},
		{`{{pick "a\n"}}`, `column 10: a backslash must be followed by " or \`},
		{`{{pick "a" b}}`, `column 12: pick "A" "B" must be followed by }}`},
	} {
		for path, config := range map[string]string{
			"requestOptions.body":        `"body":` + strconv.Quote(c.text),
			"requestOptions.headers.X-A": `"headers":{"X-A":` + strconv.Quote(c.text) + `}`,
			"requestOptions.query.q":     `"query":{"q":` + strconv.Quote(c.text) + `}`,
		} {
			_, err := Parse(now, []byte(options(config)), "")
			e, ok := errors.AsType[strict.Fault](err)
			if !ok || e.Path != path || !strings.HasPrefix(e.Message, c.want) {
				t.Errorf("%s:\n got %v\nwant %s: %s", config, err, path, c.want)
			}
		}
	}
}

// Faults of templates in the URL have positions relative to the whole URL.
func TestTemplatesInURL(t *testing.T) {
	const head = " HTTP/1.1\r\nHost: "
	for _, c := range []struct{ url, want string }{
		{`http://a/{{counter}}`, "GET /42 HTTP/1.1\r\nHost: a\r\n"},
		{`http://a:81/x y/{{counter}}/%2F?q={{counter}}`, "GET /x%20y/42/%2F?q=42 HTTP/1.1\r\nHost: a:81\r\n"},
		{`http://a?{{pick "x&y"}}=1`, "GET /?x%26y=1 HTTP/1.1\r\nHost: a\r\n"},
		{`http://a/{{pick "b/c?d e#\"\\"}}`, "GET /b/c%3Fd%20e%23%22%5C HTTP/1.1\r\nHost: a\r\n"},
		{"http://a/{{pick \"b\r\nX: y\"}}", "GET /b%0D%0AX:%20y HTTP/1.1\r\nHost: a\r\n"},
		{`http://a/é{{counter}}`, "GET /%C3%A942 HTTP/1.1\r\nHost: a\r\n"},
	} {
		p := parse(t, with("limiterUrl", strconv.Quote(c.url)))
		if got := string(p.Request.Render(new([]byte), 41)); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s:\n got %q\nwant %q%s", c.url, got, c.want, head)
		}
	}
	p := parse(t, with("limiterUrl", `"http://a/?x={{counter}}"`, "requestOptions", `{"query":{"k":"ä {{counter}}"}}`))
	if got := string(p.Request.Render(new([]byte), 0)); !strings.HasPrefix(got, "GET /?x=1&k=%C3%A4+1 HTTP/1.1\r\n") {
		t.Errorf("with two queries: %q", got)
	}
	for _, c := range []struct{ url, want string }{
		{`http://{{counter}}/`, "templates are allowed in the path and the query only"},
		{`http://a/{{count}}`, `column 12: unknown template "count"`},
		{`http://a/{{counter}}#x`, "must not have a fragment"},
		{`http://a/?x={{counter}} y`, "must not have spaces or control characters in its query"},
		{`http://a/%zz{{counter}}`, "must have a well-formed path"},
		{`ftp://a/{{counter}}`, "must begin with http:// or https://"},
	} {
		_, err := Parse(now, []byte(with("limiterUrl", strconv.Quote(c.url))), "")
		if e, ok := errors.AsType[strict.Fault](err); !ok || e.Path != "limiterUrl" || !strings.Contains(e.Message, c.want) {
			t.Errorf("%s: %v, want %q", c.url, err, c.want)
		}
	}
	_, err := Parse(now, []byte(options(`"query":{"a{{counter}}":"1"}`)), "")
	if err == nil || !strings.Contains(err.Error(), "column 2: templates are for values, not for names") {
		t.Errorf("a template in a name: %v", err)
	}
}

// The length that is announced is that of the body, whatever is inserted.
func TestContentLength(t *testing.T) {
	p := parse(t, options(`"method":"POST","body":"{{counter}} {{random -1000 1000}} {{pick \"\" \"long\" \"ä\"}}"`))
	for index := range uint64(2000) {
		head, body, _ := strings.Cut(string(p.Request.Render(new([]byte), index)), "\r\n\r\n")
		if !strings.HasSuffix(head, fmt.Sprintf("Content-Length: %d", len(body))) {
			t.Fatalf("request %d has a body of %d bytes and the head %q", index, len(body), head)
		}
	}
}

// What is drawn is a function of seed and request, spread evenly, and different
// from one template to the next.
func TestDraws(t *testing.T) {
	const n = 20_000
	indices := make([]uint64, n)
	for i := range indices {
		indices[i] = uint64(i)
	}
	text := `{{random 1 10}} {{random 1 10}} {{pick "a" "b" "c"}}`
	all := render(t, text, indices...)
	counts := map[string]int{}
	pairs := 0
	for i, line := range all {
		f := strings.Fields(line)
		counts[f[0]]++
		counts[f[2]]++
		if f[0] == f[1] {
			pairs++
		}
		if again := render(t, text, uint64(i)); i < 100 && again[0] != line {
			t.Fatalf("request %d is %q and then %q", i, line, again[0])
		}
	}
	if len(counts) != 13 {
		t.Errorf("there are %v", counts)
	}
	for what, count := range counts {
		want := n / 10
		if strings.Contains("abc", what) {
			want = n / 3
		}
		if count < want-250 || count > want+250 {
			t.Errorf("%s comes %d times, want about %d", what, count, want)
		}
	}
	if pairs < n/10-250 || pairs > n/10+250 {
		t.Errorf("two random numbers of a request are the same %d times of %d", pairs, n)
	}
}

func TestRandomBounds(t *testing.T) {
	for _, text := range []string{"-9223372036854775808 9223372036854775807",
		"9223372036854775806 9223372036854775807", "-2 1"} {
		bounds := strings.Fields(text)
		low, _ := strconv.ParseInt(bounds[0], 10, 64)
		high, _ := strconv.ParseInt(bounds[1], 10, 64)
		for i, got := range render(t, "{{random "+text+"}}", 1, 2, 3, 4, 5, 6, 7, 8) {
			if v, err := strconv.ParseInt(got, 10, 64); err != nil || v < low || v > high {
				t.Errorf("number %d from %s is %s", i, text, got)
			}
		}
	}
}

// Two seeds draw differently.
func TestSeedsDiffer(t *testing.T) {
	config := func(seed string) string {
		return with("seed", seed, "requestOptions", `{"headers":{"A":"{{random 1 1000000000}}"}}`)
	}
	one, two := parse(t, config("1")), parse(t, config("2"))
	if a, b := string(one.Request.Render(new([]byte), 5)), string(two.Request.Render(new([]byte), 5)); a == b {
		t.Errorf("both are %q", a)
	}
}

func TestRenderAllocatesNothing(t *testing.T) {
	for _, config := range []string{
		with(),
		options(`"method":"POST","headers":{"A":"{{random 1 1000}}"},"body":"{{counter}} {{pick \"a\" \"b\"}} {{random -5 5}}"`),
	} {
		p := parse(t, config)
		scratch := make([]byte, 0, 4096)
		index := uint64(0)
		if n := testing.AllocsPerRun(1000, func() {
			index++
			p.Request.Render(&scratch, index)
		}); n != 0 {
			t.Errorf("%s: Render allocates %v times", config, n)
		}
	}
}

func FuzzCompile(f *testing.F) {
	for _, text := range []string{"{{counter}}", "a{{random -1 5}}b", `{{pick "a\"" "\\"}}`, "{{", "}}{{pick"} {
		f.Add(text, uint64(7))
	}
	f.Fuzz(func(t *testing.T, text string, index uint64) {
		var c compiler
		segments, err := c.compile(text)
		if err != nil {
			if e, ok := errors.AsType[*templateError](err); !ok || e.column < 1 || e.column > len([]rune(text))+1 {
				t.Fatalf("%q: column out of the text: %v", text, err)
			}
			return
		}
		r := Request{body: segments}
		got := r.Render(new([]byte), index)
		if n := r.bodySize(index, mix(r.seed+mix(index))); n != len(got) {
			t.Fatalf("%q becomes %q, of %d bytes, said to be %d", text, got, len(got), n)
		}
		if !strings.Contains(text, "{{") && string(got) != text {
			t.Fatalf("%q becomes %q", text, got)
		}
	})
}

func BenchmarkRender(b *testing.B) {
	p := testkit.Must(Parse(now, []byte(options(`"headers":{"X-Client-Id":"client-{{random 1 1000}}"}`)), ""))(b)
	scratch := make([]byte, 0, 4096)
	var index uint64
	for b.Loop() {
		index++
		p.Request.Render(&scratch, index)
	}
}
