package file

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/deferred/deferredtest"
)

// In a folder of another user, whose links may lead anywhere, no other file is changed.
func TestPlantedLinks(t *testing.T) {
	t.Parallel()
	for suffix, refused := range map[string]string{"": "queue", ".lock": "queue.lock", suffixNew: "", suffixTry: ""} {
		path := filepath.Join(t.TempDir(), "queue")
		testkit.PlantSymlink(t, path+suffix)
		q, err := Open(time.Now(), Config{Path: path, Limits: deferredtest.LargeLimits})
		if (err == nil) == (refused != "") || err != nil &&
			!strings.Contains(err.Error(), "/"+refused+" is a symbolic link of user 65534") {
			t.Errorf("with a link at %s: %v", suffix, err)
		}
		if err == nil {
			_ = q.Close()
		}
	}
	path := filepath.Join(t.TempDir(), "try")
	testkit.PlantSymlink(t, path)
	if err := tryDisk(path); err == nil {
		t.Error("a link of another user is written to")
	}
}

// The mode of a file is corrected if it is the program's, and never that of a folder.
func TestKeepPrivate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "queue")
	_ = opened(t, Config{Path: path}).Close()
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	_ = opened(t, Config{Path: path}).Close()
	if info, err := os.Stat(path); err != nil || info.Mode() != fileMode {
		t.Errorf("it has mode %v, %v", info.Mode(), err)
	}
	folder := filepath.Join(t.TempDir(), "folder")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(time.Now(), Config{Path: folder, Limits: deferredtest.LargeLimits}); err == nil ||
		!strings.Contains(err.Error(), "is not a regular file") {
		t.Errorf("a folder: %v", err)
	}
	if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("a folder has mode %v, %v", info.Mode(), err)
	}
}
