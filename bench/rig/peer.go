package rig

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"weir/internal/freeport"
)

// A Peer is a third-party program that reads a configuration file.
type Peer struct {
	Command []string // the folder of the file is appended as the last argument
	Config  string   // format of the file conf: the folder, the address to listen on, and the values of Start
}

// Start starts the peer at a free address, with its file in a new folder below dir, and waits
// until it answers.
func (p Peer) Start(ctx context.Context, dir string, values ...any) (*Process, string, error) {
	addr, err := freeport.Addr()
	if err != nil {
		return nil, "", err
	}
	home, err := os.MkdirTemp(dir, p.Command[0]+"-")
	if err != nil {
		return nil, "", err
	}
	text := fmt.Appendf(nil, p.Config, append([]any{home, addr}, values...)...)
	if err := os.WriteFile(filepath.Join(home, "conf"), text, 0o600); err != nil {
		return nil, "", err
	}
	process, err := StartPeer(ctx, p.Command[0], addr, slices.Concat(p.Command, []string{home})...)
	return process, addr, err
}

// Nginx returns nginx with a configuration.
func Nginx(config string) Peer { return Peer{[]string{"nginx", "-c", "conf", "-p"}, config} }

// HAProxy returns HAProxy with a configuration.
func HAProxy(config string) Peer { return Peer{[]string{"haproxy", "-db", "-f", "conf", "-C"}, config} }
