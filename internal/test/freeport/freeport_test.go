package freeport

import (
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const asOther = "FREEPORT_TEST_AS_OTHER"

// Processes that run at the same time get different addresses, each once.
func TestAddr(t *testing.T) {
	if os.Getenv(asOther) != "" {
		for range 500 {
			addr, err := Addr()
			if err != nil {
				t.Fatal(err)
			}
			t.Log("free " + addr)
		}
		return
	}
	seen := make(map[string]bool)
	for range 3000 {
		addr, err := Addr()
		if err != nil {
			t.Fatal(err)
		}
		if seen[addr] {
			t.Errorf("%s was given twice", addr)
		}
		seen[addr] = true
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	other := exec.Command(self, "-test.run=TestAddr", "-test.v")
	other.Env = append(os.Environ(), asOther+"=1")
	out, err := other.CombinedOutput()
	lines := strings.Split(string(out), "free ")
	if err != nil || len(lines) != 501 {
		t.Fatalf("%d addresses, %v", len(lines)-1, err)
	}
	for _, line := range lines[1:] {
		addr, _, _ := strings.Cut(line, "\n")
		if _, _, err := net.SplitHostPort(addr); err != nil || seen[addr] {
			t.Errorf("%q was given to both, %v", addr, err)
		}
	}
}

// When no block is free, the addresses of the oldest one are given again, but not one in use.
func TestNoBlockIsFree(t *testing.T) {
	var p *pool
	var seen []string
	for len(seen) == 0 { // other processes may have some blocks
		low := portMin + blockPorts*rand.IntN((portMax-portMin)/blockPorts)
		p = &pool{low: low, high: low + blockPorts}
		if addr, err := p.addr(); err == nil {
			seen = append(seen, addr)
		}
	}
	defer p.guards[0].Close()
	used, err := net.Listen("tcp", seen[0])
	if err != nil {
		t.Fatal(err)
	}
	defer used.Close()
	for range 2 * blockPorts {
		addr, err := p.addr()
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, addr)
	}
	if slices.Contains(seen[1:], seen[0]) {
		t.Errorf("%s was given while a program listened there", seen[0])
	}
}
