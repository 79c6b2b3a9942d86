// Package ownfile opens the files that a program writes. Another user who may change the directory
// cannot make the program write to, truncate or chmod a different file, for example by a symbolic
// link.
package ownfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// linksMax bounds the symbolic links that are followed, like the kernel does.
const linksMax = 40

// Open is os.OpenFile, except that it follows a symbolic link only if root or the program's user
// has made it. So /dev/stdout and links that an administrator has set up work.
func Open(name string, flag int, mode fs.FileMode) (*os.File, error) {
	return open(name, flag, mode, ours)
}

// ours reports whether a user is root or the one that runs the program.
func ours(uid uint32) bool { return uid == 0 || int(uid) == os.Geteuid() }

// open is Open; trusts reports whether the links of a user are followed.
func open(name string, flag int, mode fs.FileMode, trusts func(uid uint32) bool) (*os.File, error) {
	given := name
	for range linksMax {
		f, err := os.OpenFile(name, flag|unix.O_NOFOLLOW, mode)
		if !errors.Is(err, unix.ELOOP) {
			return f, err
		}
		to, err := target(name, trusts)
		switch {
		case err != nil:
			return nil, &fs.PathError{Op: "open", Path: given, Err: err}
		case to == "":
			return os.OpenFile(name, flag, mode)
		case filepath.IsAbs(to):
			name = to
		default:
			name = filepath.Dir(name) + "/" + to // not joined, since folders may be links
		}
	}
	return nil, &fs.PathError{Op: "open", Path: given, Err: unix.ELOOP}
}

// target returns where a symbolic link leads, or "" for a link of the proc file system: its text
// is no path, and nobody can replace it.
func target(name string, trusts func(uid uint32) bool) (to string, err error) {
	fd, err := unix.Open(name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	var system unix.Statfs_t
	if err = errors.Join(unix.Fstat(fd, &stat), unix.Fstatfs(fd, &system)); err != nil {
		return "", err
	}
	switch {
	case system.Type == unix.PROC_SUPER_MAGIC:
		return "", nil
	case !trusts(stat.Uid):
		return "", fmt.Errorf(
			"%s is a symbolic link of user %d; allowed: links of root or of the user that runs the program", name, stat.Uid)
	}
	text := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", text) // of the link that was checked, even if it is replaced
	return string(text[:max(n, 0)]), err
}

// SetMode gives an open file a mode. A file that belongs to neither root nor the program's user stays as
// it is, and is an error whatever its mode: another user may have put it there, and may read it.
func SetMode(f *os.File, mode fs.FileMode) error {
	var stat unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &stat); err != nil {
		return &fs.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	switch {
	case !ours(stat.Uid):
		return fmt.Errorf("%s belongs to user %d; allowed: files of root or of the user that runs the program", f.Name(),
			stat.Uid)
	case fs.FileMode(stat.Mode).Perm() == mode:
		return nil
	}
	return f.Chmod(mode)
}

// AllowAllToConnect lets all users connect to a unix socket. Links are not followed.
func AllowAllToConnect(name string) error {
	fd, err := unix.Open(name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err = unix.Fstat(fd, &stat); err == nil && stat.Mode&unix.S_IFMT != unix.S_IFSOCK {
		err = unix.ENOTSOCK
	}
	if err == nil {
		err = unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), 0o666) // fchmod refuses such a descriptor
	}
	if err != nil {
		return &fs.PathError{Op: "chmod", Path: name, Err: err}
	}
	return nil
}

// IsPrivateDir reports whether only root and the program's user, and their groups, can replace files in
// a directory.
func IsPrivateDir(folder string) bool {
	var stat unix.Stat_t
	return unix.Stat(folder, &stat) == nil && ours(stat.Uid) && stat.Mode&0o002 == 0
}
