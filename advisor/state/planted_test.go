package state

import (
	"path/filepath"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

// In a folder of another user, whose links may lead anywhere, no other file is changed.
func TestPlantedLinks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	testkit.PlantSymlink(t, path+".lock")
	if _, _, err := Open(time.Now(), path); err == nil {
		t.Error("a link of another user is locked")
	}
	path = filepath.Join(t.TempDir(), "image")
	testkit.PlantSymlink(t, path+".tmp")
	if err := replace(path, []byte("x")); err == nil {
		t.Error("an image is written to a link of another user")
	}
	path = filepath.Join(t.TempDir(), "journal")
	testkit.PlantSymlink(t, path)
	if err := new(journal).write(path, []byte("x\n"), 1); err == nil {
		t.Error("records are written to a link of another user")
	}
}
