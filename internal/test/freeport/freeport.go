// Package freeport finds addresses for programs that tests and experiments start.
package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// The ports are below those that Linux assigns to clients and for port 0
// (ip_local_port_range): another process could get one of those before the program
// listens, or while it restarts.
const portMin, portMax = 15_000, 30_000

// A process takes blocks of ports. It listens at the first port of each until it ends, so that other
// processes that use this package do not get the others, even while they are unused.
const blockPorts = 50

const triesMax = 1000

// A pool is a range of ports, and what this process has taken of it.
//
// Safe for concurrent use: mu guards guards and ports.
type pool struct {
	low, high int

	mu     sync.Mutex
	guards []net.Listener // at the first ports of blocks, the latest last
	ports  []int          // of the latest block, not given yet
}

var all = pool{low: portMin, high: portMax}

// Addr returns a free address on 127.0.0.1. It returns none that it has returned to another process
// that still runs. It returns one again only when all blocks are taken, and begins with the oldest
// ones of this process that are free then. Safe for concurrent use.
func Addr() (string, error) { return all.addr() }

func (p *pool) addr() (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for range triesMax {
		if len(p.ports) == 0 && !p.nextBlock() {
			break
		}
		addr := local(p.ports[0])
		p.ports = p.ports[1:]
		if ln, err := net.Listen("tcp", addr); err == nil {
			_ = ln.Close()
			return addr, nil
		}
	}
	return "", errors.New("find a free port: too many are taken")
}

// nextBlock takes a free block, or the oldest one of this process again. It returns false if this
// process has none.
func (p *pool) nextBlock() bool {
	guard := p.freeBlock()
	if guard == nil {
		if len(p.guards) == 0 {
			return false
		}
		guard, p.guards = p.guards[0], p.guards[1:]
	}
	p.guards = append(p.guards, guard)
	first := guard.Addr().(*net.TCPAddr).Port
	for port := first + 1; port < first+blockPorts; port++ {
		p.ports = append(p.ports, port)
	}
	return true
}

// freeBlock listens at the first port of a block of which no process does. It returns nil if it
// finds none.
func (p *pool) freeBlock() net.Listener {
	for range triesMax {
		first := p.low + blockPorts*rand.IntN((p.high-p.low)/blockPorts)
		if guard, err := net.Listen("tcp", local(first)); err == nil {
			return guard
		}
	}
	return nil
}

func local(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
