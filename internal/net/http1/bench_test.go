package http1_test

import (
	"strings"
	"testing"

	"weir/internal/net/http1"
)

// The messages that are measured: the least that wrk sends, what a browser
// sends, what nginx answers, and a body in chunks.
const (
	smallGet = "GET / HTTP/1.1\r\nHost: localhost:8080\r\n\r\n"

	fiveFieldGet = "GET /api/v1/items?page=2 HTTP/1.1\r\n" +
		"Host: api.example.com\r\n" +
		"User-Agent: curl/8.5.0\r\n" +
		"Accept: */*\r\n" +
		"Authorization: Bearer 0123456789abcdef0123456789abcdef\r\n" +
		"X-Request-Id: 5f2c9a7e-3b1d-4c8e-9f6a-0d1e2f3a4b5c\r\n\r\n"

	browserGet = "GET /articles/2024/05/a-long-story?ref=home HTTP/1.1\r\n" +
		"Host: www.example.com\r\n" +
		"Connection: keep-alive\r\n" +
		"Cache-Control: max-age=0\r\n" +
		"Upgrade-Insecure-Requests: 1\r\n" +
		"User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) " +
		"Chrome/124.0.0.0 Safari/537.36\r\n" +
		"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n" +
		"Sec-Fetch-Site: none\r\n" +
		"Sec-Fetch-Mode: navigate\r\n" +
		"Sec-Fetch-Dest: document\r\n" +
		"Accept-Encoding: gzip, deflate, br\r\n" +
		"Accept-Language: en-GB,en;q=0.9\r\n" +
		"Cookie: session=0123456789abcdef; theme=dark\r\n\r\n"

	nginxResponse = "HTTP/1.1 200 OK\r\n" +
		"Server: nginx/1.22.1\r\n" +
		"Date: Tue, 14 May 2024 09:00:00 GMT\r\n" +
		"Content-Type: application/octet-stream\r\n" +
		"Content-Length: 3\r\n" +
		"Connection: keep-alive\r\n\r\nok\n"
)

var chunkedPost = "POST /upload HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" +
	strings.Repeat("100\r\n"+strings.Repeat("x", 256)+"\r\n", 16) + "0\r\n\r\n"

// readMessage reads the one message that b holds.
func readMessage(r *http1.Reader, b []byte, h *http1.Head) bool {
	for {
		ev, err := r.Next(b, h)
		if err != nil || ev.Kind == http1.NeedMore {
			return false
		}
		b = b[ev.N:]
		if ev.Kind == http1.End {
			return len(b) == 0
		}
	}
}

func BenchmarkRead(b *testing.B) {
	for _, c := range []struct {
		name, in string
		reader   func(*http1.Limits) http1.Reader
	}{
		{"SmallGet", smallGet, http1.NewRequestReader},
		{"FiveFieldGet", fiveFieldGet, http1.NewRequestReader},
		{"BrowserGet", browserGet, http1.NewRequestReader},
		{"NginxResponse", nginxResponse, http1.NewResponseReader},
		{"ChunkedPost", chunkedPost, http1.NewRequestReader},
	} {
		b.Run(c.name, func(b *testing.B) {
			in, r := []byte(c.in), c.reader(nil)
			var h http1.Head
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				if !readMessage(&r, in, &h) {
					b.Fatal("not read")
				}
			}
		})
	}
}

// BenchmarkForward is the work of a proxy on a head: read it, write it anew.
func BenchmarkForward(b *testing.B) {
	for _, c := range []struct{ name, in string }{{"FiveFieldGet", fiveFieldGet}, {"BrowserGet", browserGet}} {
		b.Run(c.name, func(b *testing.B) {
			in, r := []byte(c.in), http1.NewRequestReader(nil)
			var h http1.Head
			out := make([]byte, 0, 4096)
			b.ReportAllocs()
			for b.Loop() {
				if !readMessage(&r, in, &h) {
					b.Fatal("not read")
				}
				out = appendForwarded(out[:0], &h)
			}
		})
	}
}

// appendForwarded appends the head that a proxy sends on, without its own
// additions.
func appendForwarded(dst []byte, h *http1.Head) []byte {
	dst = http1.AppendRequestLine(dst, h)
	dst = http1.AppendField(dst, "Host", h.Host)
	for i := range h.Fields {
		if !h.Fields[i].Hop {
			dst = http1.AppendFieldLine(dst, &h.Fields[i])
		}
	}
	return http1.AppendHeadEnd(dst)
}

// BenchmarkSlowInput feeds a head byte by byte: the time per byte must not
// depend on how many bytes came before.
func BenchmarkSlowInput(b *testing.B) {
	in, r := []byte(browserGet), http1.NewRequestReader(nil)
	var h http1.Head
	b.SetBytes(int64(len(in)))
	for b.Loop() {
		for n := 1; n <= len(in); n++ {
			if _, err := r.Next(in[:n], &h); err != nil {
				b.Fatal(err)
			}
		}
		if ev, _ := r.Next(nil, &h); ev.Kind != http1.End {
			b.Fatalf("got %v, want %v", ev.Kind, http1.End)
		}
	}
}

func BenchmarkAppendAnswer(b *testing.B) {
	a := http1.LocalResponse{Status: 429, ContentType: "text/plain", Body: []byte("slow down\n"),
		Extra: []byte("Retry-After: 1\r\n")}
	out := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		out = http1.AppendLocalResponse(out[:0], a)
	}
}

func TestNoAllocation(t *testing.T) {
	for _, c := range []struct {
		name, in string
		reader   func(*http1.Limits) http1.Reader
	}{
		{"small GET", smallGet, http1.NewRequestReader},
		{"browser GET", browserGet, http1.NewRequestReader},
		{"nginx response", nginxResponse, http1.NewResponseReader},
		{"chunked POST", chunkedPost, http1.NewRequestReader},
		{"named by Connection", "GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\nConnection: x, close\r\n\r\n", http1.NewRequestReader},
		{"trailer", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\n\r\n",
			http1.NewRequestReader},
	} {
		in, r := []byte(c.in), c.reader(nil)
		var h http1.Head
		readMessage(&r, in, &h) // makes room in h.Fields
		out := make([]byte, 0, 4096)
		if n := testing.AllocsPerRun(100, func() {
			if !readMessage(&r, in, &h) {
				t.Fatal("not read")
			}
			out = appendForwarded(out[:0], &h)
		}); n != 0 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
}

func TestRefusalDoesNotAllocate(t *testing.T) {
	in := []byte("GET / HTTP/1.1\r\nHost: a\r\nBad Name: x\r\n\r\n")
	var h http1.Head
	fields := make([]http1.Field, 0, 8)
	if n := testing.AllocsPerRun(100, func() {
		h.Fields = fields
		r := http1.NewRequestReader(nil)
		if _, err := r.Next(in, &h); err == nil {
			t.Fatal("not refused")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
