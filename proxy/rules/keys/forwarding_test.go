package keys

import (
	"strings"
	"testing"
)

// Every usual name is a claim, in any letters and in the spelling of variables.
func TestUsual(t *testing.T) {
	s, err := NewForwardingFields(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range usual {
		name = strings.Replace(name, "*", "Some-Thing", 1)
		for _, spelling := range []string{name, strings.ToLower(name), strings.ToUpper(name),
			strings.ReplaceAll(name, "-", "_")} {
			if !s.Has([]byte(spelling)) {
				t.Errorf("%s is not a claim", spelling)
			}
		}
	}
}
