package archtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/test/testkit"
)

// TestRepository checks the repository that this package belongs to.
func TestRepository(t *testing.T) {
	root := findRoot(t)
	r := testkit.Must(read(os.DirFS(root)))(t)
	if len(r.packages) < 5 {
		t.Fatalf("only %d packages found below %s", len(r.packages), root)
	}
	for _, finding := range check(r, ownPlaces(root)) {
		t.Error(finding)
	}
}

// findRoot returns the folder with go.mod above this one.
func findRoot(t *testing.T) string {
	dir := testkit.Must(os.Getwd())(t)
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above this folder")
		}
	}
}

// ownPlaces returns the folders of this machine that a file could name by
// mistake: where the repository is, and the user's own. A place directly below
// the root, such as /src, is too likely to mean something else.
func ownPlaces(root string) []string {
	var places []string
	if strings.Count(root, "/") > 1 {
		places = append(places, root)
	}
	if home, err := os.UserHomeDir(); err == nil && home != "/" {
		places = append(places, home+"/")
	}
	return places
}
