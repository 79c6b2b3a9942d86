package attack

import (
	"bytes"
	"fmt"
	"strconv"
)

// The messages of attackers. Unless the attack is about the answer, they use the path of the
// good traffic.

// get returns a complete request for path.
func get(path string) []byte {
	return []byte("GET " + path + " HTTP/1.1\r\nHost: weir\r\n\r\n")
}

// openHead returns an incomplete head: the letters that follow belong to its last field.
func openHead() []byte { return []byte("GET /api/test HTTP/1.1\r\nHost: weir\r\nX-Slow: ") }

// post returns the head of an upload with a Content-Length.
func post(length string) []byte {
	return []byte("POST /api/test HTTP/1.1\r\nHost: weir\r\nContent-Length: " + length + "\r\n\r\n")
}

// longLine returns a request with a field value of n bytes.
func longLine(n int) []byte { return field("X-Long", string(bytes.Repeat([]byte{'a'}, n))) }

// longName returns a request with a field name of n bytes.
func longName(n int) []byte { return field(string(bytes.Repeat([]byte{'a'}, n)), "1") }

// manyFields returns a request with n short fields.
func manyFields(n int) []byte {
	b := []byte("GET /api/test HTTP/1.1\r\nHost: weir\r\n")
	for i := range n {
		b = fmt.Appendf(b, "X%d: 1\r\n", i)
	}
	return append(b, "\r\n"...)
}

func field(name, value string) []byte {
	return []byte("GET /api/test HTTP/1.1\r\nHost: weir\r\n" + name + ": " + value + "\r\n\r\n")
}

const chunkedHead = "POST /api/test HTTP/1.1\r\nHost: weir\r\nTransfer-Encoding: chunked\r\n\r\n"

// tinyChunks returns a request with n chunks of one byte.
func tinyChunks(n int) []byte {
	return append(append([]byte(chunkedHead), bytes.Repeat([]byte("1\r\na\r\n"), n)...), "0\r\n\r\n"...)
}

// longExtension returns a request with a chunk extension of n bytes.
func longExtension(n int) []byte {
	b := append([]byte(chunkedHead+"1;e="), bytes.Repeat([]byte{'a'}, n)...)
	return append(b, "\r\na\r\n0\r\n\r\n"...)
}

// emptyLines returns n empty lines and then a request.
func emptyLines(n int) []byte {
	return append(bytes.Repeat([]byte("\r\n"), n), get("/api/test")...)
}

// pipeline returns n requests.
func pipeline(n int) []byte { return bytes.Repeat(get("/api/test"), n) }

// statusOf returns the status in a status line; 0 if the line is invalid.
func statusOf(line []byte) int {
	rest, ok := bytes.CutPrefix(line, []byte("HTTP/1.1 "))
	if !ok || len(rest) < 3 {
		return 0
	}
	status, err := strconv.Atoi(string(rest[:3]))
	if err != nil {
		return 0
	}
	return status
}
