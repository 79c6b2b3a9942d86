package attack

import (
	"bytes"
	"fmt"
	"strconv"
)

// What attackers send. All of it goes to the path that good traffic uses,
// unless the attack is about the answer.

// get is a whole request for path.
func get(path string) []byte {
	return []byte("GET " + path + " HTTP/1.1\r\nHost: weir\r\n\r\n")
}

// openHead is a head that is never finished: whatever letters follow belong to
// its last field.
func openHead() []byte { return []byte("GET /api/test HTTP/1.1\r\nHost: weir\r\nX-Slow: ") }

// post is the head of an upload whose length is told as given.
func post(length string) []byte {
	return []byte("POST /api/test HTTP/1.1\r\nHost: weir\r\nContent-Length: " + length + "\r\n\r\n")
}

// longLine has a field of n bytes.
func longLine(n int) []byte { return field("X-Long", string(bytes.Repeat([]byte{'a'}, n))) }

// longName has a field name of n bytes.
func longName(n int) []byte { return field(string(bytes.Repeat([]byte{'a'}, n)), "1") }

// manyFields has n short fields.
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

// tinyChunks is a body of n chunks of one byte.
func tinyChunks(n int) []byte {
	return append(append([]byte(chunkedHead), bytes.Repeat([]byte("1\r\na\r\n"), n)...), "0\r\n\r\n"...)
}

// longExtension is a chunk with an extension of n bytes.
func longExtension(n int) []byte {
	b := append([]byte(chunkedHead+"1;e="), bytes.Repeat([]byte{'a'}, n)...)
	return append(b, "\r\na\r\n0\r\n\r\n"...)
}

// emptyLines are n of them and then a request.
func emptyLines(n int) []byte {
	return append(bytes.Repeat([]byte("\r\n"), n), get("/api/test")...)
}

// pipeline is n requests right behind each other.
func pipeline(n int) []byte { return bytes.Repeat(get("/api/test"), n) }

// statusOf is the status of an answer's first line; 0 when it is none.
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
