package http2_test

import (
	"fmt"
	"time"

	"weir/internal/net/http1"
	"weir/internal/net/http2"
)

// A client sends a request to a server, which answers.
func Example() {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	client, server := http2.New(http2.Client, nil, now), http2.New(http2.Server, nil, now)
	var h http2.Head

	out, _, err := client.AppendRequest(nil, &http2.Request{
		Method: []byte("GET"), Scheme: "http", Authority: []byte("weir.test"), Path: []byte("/a?b"),
		Fields: http1.AppendField(nil, "Accept", "*/*"),
	}, true)
	for in := out; err == nil; {
		var ev http2.Event
		if ev, err = server.Next(now, in, &h); ev.Kind == http2.NeedMore {
			break
		}
		if ev.Kind == http2.HeadDone {
			fmt.Printf("stream %d: %s %s at %s, %d fields\n", ev.Stream, h.Method, h.Target, h.Host, len(h.Fields))
			out, _ = server.AppendResponse(nil, ev.Stream, 200, http1.AppendField(nil, "Server", "weir"), false)
			out, _ = server.AppendData(out, ev.Stream, []byte("hello"), true)
		}
		in = in[ev.N:]
	}
	for in := out; err == nil; {
		var ev http2.Event
		if ev, err = client.Next(now, in, &h); ev.Kind == http2.NeedMore {
			break
		}
		switch ev.Kind {
		case http2.HeadDone:
			fmt.Printf("stream %d: %d\n", ev.Stream, h.Status)
		case http2.Data:
			fmt.Printf("stream %d: %s, end %t\n", ev.Stream, ev.Data, ev.EndStream)
		}
		in = in[ev.N:]
	}
	// Output:
	// stream 1: GET /a?b at weir.test, 2 fields
	// stream 1: 200
	// stream 1: hello, end true
}
