package file

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"weir/proxy/deferred"
)

// A lockFile marks a file as used by this process. It is a separate file, because the marked file
// may be replaced.
type lockFile struct{ f *os.File }

// lockPath locks path.lock. The error is deferred.ErrInUse if another process has locked it.
func lockPath(path string) (*lockFile, error) {
	f, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, fileMode)
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
	return &lockFile{f}, nil
}

// close unlocks the file.
func (l *lockFile) close() { _ = l.f.Close() } // nothing was written
