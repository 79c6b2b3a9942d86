package file

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"weir/internal/test/testkit"
)

// A lock ends although a child that is being started still has a copy of its descriptor.
func TestUnlockWithACopy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queue")
	f := testkit.Must(lockPath(path))(t)
	inherited := testkit.Must(unix.Dup(int(f.Fd())))(t)
	defer func() { _ = unix.Close(inherited) }()
	unlock(f)
	unlock(testkit.Must(lockPath(path))(t))
}
