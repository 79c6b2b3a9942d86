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
	root := testkit.Must(filepath.Abs("../../.."))(t)
	r := testkit.Must(read(os.DirFS(root)))(t)
	if len(r.packages) < 5 {
		t.Fatalf("only %d packages found below %s", len(r.packages), root)
	}
	for _, finding := range r.check(ownPlaces(root)) {
		t.Error(finding)
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
