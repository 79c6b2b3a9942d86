package ownfile

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"weir/internal/test/testkit"
)

// nobody is a user that is neither root nor the one of the tests.
const nobody = 65534

func write(t *testing.T, name string) error {
	t.Helper()
	f, err := Open(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString("new")
	return err
}

// The links of root and the own user are followed, also one after the other, and those of others
// are not, wherever in the chain they are.
func TestOpenFollowsOwnLinks(t *testing.T) {
	folder := t.TempDir()
	in := func(name string) string { return filepath.Join(folder, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(in("sub"), 0o700))
	must(os.WriteFile(in("sub/file"), []byte("old"), 0o600))
	link := func(to, name string, uid int) {
		t.Helper()
		must(os.Symlink(to, in(name)))
		must(os.Lchown(in(name), uid, -1))
	}
	me := os.Geteuid()
	link(in("sub/file"), "absolute", me)
	link("sub/file", "relative", me)
	link("../relative", "sub/chain", me)
	link("sub/file", "foreign", nobody)
	link("foreign", "toForeign", me)
	link("missing", "dangling", me)
	link("elsewhere", "foreignDangling", nobody)
	link("loop", "loop", me)
	for name, follows := range map[string]bool{"new": true, "sub/file": true, "absolute": true, "relative": true,
		"sub/chain": true, "dangling": true,
		"foreign": false, "toForeign": false, "foreignDangling": false, "loop": false} {
		must(os.WriteFile(in("sub/file"), []byte("old"), 0o600))
		if err := write(t, in(name)); (err == nil) != follows {
			t.Errorf("%s: %v", name, err)
		} else if err != nil && name != "loop" &&
			!strings.Contains(err.Error(), fmt.Sprintf("is a symbolic link of user %d; allowed: ", nobody)) {
			t.Errorf("%s: %v", name, err)
		}
		if text, err := os.ReadFile(in("sub/file")); err != nil || !follows && string(text) != "old" {
			t.Errorf("%s has changed the file to %q, %v", name, text, err)
		}
	}
	if _, err := os.Stat(in("elsewhere")); err == nil {
		t.Error("a file was created through a foreign link")
	}
}

// Descriptors are opened by the names that the system has for them.
func TestOpenDescriptor(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if err := write(t, fmt.Sprintf("/dev/fd/%d", w.Fd())); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 3)
	if _, err := r.Read(got); err != nil || string(got) != "new" {
		t.Errorf("read %q, %v", got, err)
	}
}

// As many links as the bound are followed, and not one more.
func TestOpenBoundsLinks(t *testing.T) {
	folder := t.TempDir()
	for i := range linksMax + 1 {
		if err := os.Symlink(fmt.Sprint(i), filepath.Join(folder, fmt.Sprint(i+1))); err != nil {
			t.Fatal(err)
		}
	}
	if err := write(t, filepath.Join(folder, fmt.Sprint(linksMax-1))); err != nil {
		t.Errorf("%d links: %v", linksMax-1, err)
	}
	if err := write(t, filepath.Join(folder, fmt.Sprint(linksMax))); err == nil {
		t.Errorf("%d links are followed", linksMax)
	}
}

// A file that belongs to somebody else is an error, whatever its mode, and its mode is not changed.
func TestKeep(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	has := func(want fs.FileMode) {
		t.Helper()
		if info, err := f.Stat(); err != nil || info.Mode().Perm() != want {
			t.Errorf("it has mode %v, %v, want %v", info.Mode(), err, want)
		}
	}
	if err := SetMode(f, 0o600); err != nil {
		t.Error(err)
	}
	has(0o600)
	if err := os.Chown(name, nobody, -1); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []fs.FileMode{0o600, 0o640} {
		if err := SetMode(f, mode); err == nil || !strings.Contains(err.Error(), "belongs to user 65534; allowed: ") {
			t.Errorf("a file of another user, for mode %o: %v", mode, err)
		}
	}
	has(0o600)
}

func TestGuarded(t *testing.T) {
	folder := t.TempDir()
	for _, f := range []struct {
		uid  int
		mode uint32
		want bool
	}{{os.Geteuid(), 0o700, true}, {os.Geteuid(), 0o775, true}, {os.Geteuid(), 0o777, false},
		{os.Geteuid(), 0o1777, false}, {nobody, 0o700, false}} {
		if err := os.Chown(folder, f.uid, -1); err != nil {
			t.Fatal(err)
		}
		if err := unix.Chmod(folder, f.mode); err != nil {
			t.Fatal(err)
		}
		if got := IsPrivateDir(folder); got != f.want {
			t.Errorf("a folder of user %d with mode %o is guarded: %t", f.uid, f.mode, got)
		}
	}
	if IsPrivateDir(filepath.Join(folder, "missing")) {
		t.Error("a folder that does not exist is guarded")
	}
}

// Only a socket gets the mode, not a file or what a link names.
func TestShareSocket(t *testing.T) {
	folder := t.TempDir()
	socket, file, link := filepath.Join(folder, "s"), filepath.Join(folder, "f"), filepath.Join(folder, "l")
	l := testkit.Must(net.Listen("unix", socket))(t)
	defer l.Close()
	testkit.WriteFile(t, file, "")
	if err := errors.Join(os.Chmod(socket, 0o700), os.Symlink(socket, link), AllowAllToConnect(socket)); err != nil {
		t.Fatal(err)
	}
	if mode := testkit.Must(os.Stat(socket))(t).Mode().Perm(); mode != 0o666 {
		t.Errorf("the socket has the mode %v", mode)
	}
	for _, name := range []string{file, link} {
		if err := AllowAllToConnect(name); !errors.Is(err, unix.ENOTSOCK) {
			t.Errorf("%s: %v, want %v", name, err, unix.ENOTSOCK)
		}
	}
}
