package testkit

import (
	"os"
	"path/filepath"
	"testing"
)

// NobodyUID is a user that is neither root nor the one of the tests, which must be root to use it.
const NobodyUID = 65534

// PlantSymlink plants a symbolic link of another user at name, which leads to a file of this user. After
// the test the file must be as it was.
func PlantSymlink(t *testing.T, name string) {
	t.Helper()
	const text = "precious"
	victim := filepath.Join(t.TempDir(), "victim")
	WriteFile(t, victim, text)
	for _, err := range []error{os.Chmod(victim, 0o644), os.Symlink(victim, name), os.Lchown(name, NobodyUID, -1)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		info, err := os.Stat(victim)
		have, readErr := os.ReadFile(victim)
		if err != nil || readErr != nil || info.Mode() != 0o644 || string(have) != text {
			t.Errorf("the file behind the link of another user at %s has changed: %.40q, %v, %v", name, have, info.Mode(), err)
		}
	})
}
