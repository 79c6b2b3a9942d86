// Package freeport finds addresses for programs that tests and experiments start.
package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// Ports are below those that Linux gives to clients and to whoever asks for port 0
// (ip_local_port_range): one of these could be given the port before the program
// listens, or while it is started again.
const portMin, portMax = 15_000, 30_000

const triesMax = 1000

// given are the addresses that this process was given before.
var given sync.Map

// Addr returns a free address on 127.0.0.1, each time another until
// nearly all were given. Safe for concurrent use.
func Addr() (string, error) {
	for try := range triesMax {
		addr := fmt.Sprintf("127.0.0.1:%d", portMin+rand.IntN(portMax-portMin))
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			continue
		}
		_ = ln.Close()
		if _, twice := given.LoadOrStore(addr, true); !twice {
			return addr, nil
		}
		if try == triesMax/2 {
			given.Clear()
		}
	}
	return "", errors.New("find a free port: too many are taken")
}
