package http1_test

import (
	"errors"
	"fmt"

	"weir/internal/net/http1"
)

// A proxy reads a request and sends it on.
func Example() {
	r := http1.NewRequestReader(nil)
	var h http1.Head
	in := []byte(
		"POST /a HTTP/1.1\r\nHost: weir.test\r\nConnection: X-Hop\r\nX-Hop: 1\r\nX-End: 2\r\nContent-Length: 4\r\n\r\nbody")
	var out []byte
	for done := false; !done; {
		ev, err := r.Next(in, &h)
		if err != nil {
			fmt.Println(http1.StatusOf(err), err)
			return
		}
		switch ev.Kind {
		case http1.HeadDone:
			out = http1.AppendRequestLine(out, &h)
			out = http1.AppendField(out, "Host", h.Host)
			for _, f := range h.Fields {
				if !f.Hop {
					out = http1.AppendFieldLine(out, &f)
				}
			}
			out = http1.AppendFieldInt(out, "Content-Length", h.Length)
			out = http1.AppendHeadEnd(out)
		case http1.Data:
			out = append(out, ev.Data...)
		case http1.End, http1.NeedMore:
			done = true
		}
		in = in[ev.N:]
	}
	fmt.Printf("%q\n", out)
	// Output: "POST /a HTTP/1.1\r\nHost: weir.test\r\nX-End: 2\r\nContent-Length: 4\r\n\r\nbody"
}

// What comes in pieces is given again, with more behind it, until it is done
// with.
func ExampleReader_Next() {
	r := http1.NewRequestReader(nil)
	var h http1.Head
	ev, _ := r.Next([]byte("GET / HTTP/1.1\r\nHo"), &h)
	fmt.Println(ev.Kind == http1.NeedMore, ev.N)
	ev, _ = r.Next([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET"), &h)
	fmt.Println(ev.Kind == http1.HeadDone, ev.N, h.Method)
	// Output:
	// true 0
	// true 27 GET
}

// A fault names the status that answers it.
func ExampleError() {
	r := http1.NewRequestReader(nil)
	_, err := r.Next([]byte("GET / HTTP/1.1\r\nHost : a\r\n\r\n"), new(http1.Head))
	var fault *http1.Error
	if errors.As(err, &fault) {
		fmt.Println(fault.Status, fault.Reason)
	}
	fmt.Println(http1.StatusOf(fmt.Errorf("read request: %w", err)), http1.StatusOf(errors.New("disk full")))
	// Output:
	// 400 whitespace in a field name or before its colon
	// 400 500
}

// Check has what a proxy at the edge refuses although it is well-formed.
func ExampleHead_Check() {
	r := http1.NewRequestReader(nil)
	var h http1.Head
	if _, err := r.Next([]byte("TRACE / HTTP/1.1\r\nHost: a\r\n\r\n"), &h); err == nil {
		fmt.Println(http1.StatusOf(h.Check()))
	}
	// Output: 405
}

func ExampleAppendLocalResponse() {
	out := http1.AppendLocalResponse(nil, http1.LocalResponse{
		Status:      429,
		ContentType: "text/plain",
		Body:        []byte("slow down\n"),
		Extra:       http1.AppendFieldInt(nil, "Retry-After", 1),
	})
	fmt.Printf("%q\n", out)
	// Output: "HTTP/1.1 429 Too Many Requests\r\nContent-Type: text/plain\r\nContent-Length: 10\r\nRetry-After: 1\r\n\r\nslow down\n"
}
