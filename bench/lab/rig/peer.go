package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"weir/internal/test/freeport"
)

// A Peer is a third-party program that reads a configuration file.
type Peer struct {
	Command []string // the folder of the file is appended as the last argument
	Config  string   // format of the file conf: the folder, the address to listen on, and the values of StartPeer
}

// StartPeer starts a peer at a free address and waits until it answers. It ends with the current
// part.
func (l *Lab) StartPeer(p Peer, values ...any) (*Process, string) {
	addr, home := Must(freeport.Addr()), Must(os.MkdirTemp(l.Dir, p.Command[0]+"-"))
	text := fmt.Appendf(nil, p.Config, append([]any{home, addr}, values...)...)
	Check(os.WriteFile(filepath.Join(home, "conf"), text, 0o600))
	return l.StartForeign(p.Command[0], addr, slices.Concat(p.Command, []string{home})...), addr
}

// RequireInstalled returns an error that lists the programs that are not installed, or nil.
func RequireInstalled(programs ...string) (err error) {
	for _, name := range programs {
		if _, e := exec.LookPath(name); e != nil {
			err = errors.Join(err, fmt.Errorf("%s is not installed; make bench-setup installs it", name))
		}
	}
	return err
}

// BuildPeer builds a package of a module in a folder of this repository into the file out.
func BuildPeer(ctx context.Context, out, folder, pkg string) error {
	if text, err := exec.CommandContext(ctx, "go", "build", "-C", folder, "-o", out, pkg).CombinedOutput(); err != nil {
		return fmt.Errorf("build %s in the current folder, which must be the repository: %w: %.300s", folder, err, text)
	}
	return nil
}

// Nginx returns nginx with a configuration.
func Nginx(config string) Peer { return Peer{[]string{"nginx", "-c", "conf", "-p"}, config} }

// HAProxy returns HAProxy with a configuration.
func HAProxy(config string) Peer { return Peer{[]string{"haproxy", "-db", "-f", "conf", "-C"}, config} }
