package file

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"weir/internal/program/ownfile"
	"weir/proxy/deferred"
)

// lockPath marks a file as used by this process until unlock of the returned file: path.lock, since
// the marked file may be replaced. The error is deferred.ErrInUse if another process has locked it.
func lockPath(path string) (*os.File, error) {
	f, err := ownfile.Open(path+".lock", os.O_CREATE|os.O_RDWR, fileMode)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close() // nothing was written
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, deferred.ErrInUse
		}
		return nil, err
	}
	return f, nil
}

// unlock ends the mark. Closing alone would not, while a child that this process is starting has not
// yet closed its copy of the descriptor.
func unlock(f *os.File) {
	_ = unix.Flock(int(f.Fd()), unix.LOCK_UN)
	_ = f.Close() // nothing was written
}
