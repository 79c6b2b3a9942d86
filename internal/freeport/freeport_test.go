package freeport

import (
	"net"
	"testing"
)

func TestAddr(t *testing.T) {
	seen := make(map[string]bool)
	for range 100 {
		addr, err := Addr()
		if err != nil {
			t.Fatal(err)
		}
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = ln.Close() // the next ones are others all the same
		if seen[addr] {
			t.Errorf("%s was given twice", addr)
		}
		seen[addr] = true
	}
}
