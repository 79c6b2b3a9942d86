package http1

import "testing"

// TestFieldIDs finds each known name in three spellings, and makes sure that
// none hides another.
func TestFieldIDs(t *testing.T) {
	for id := FieldOther + 1; id < fieldCount; id++ {
		lower, defaultPort := fieldNames[id], usualNames[id]
		odd := []byte(defaultPort)
		for i := range odd {
			if i%2 == 1 {
				odd[i] = lower[i] &^ 0x20
				if lower[i] == '-' || isDigit(lower[i]) {
					odd[i] = lower[i]
				}
			}
		}
		for _, name := range []string{lower, defaultPort, string(odd)} {
			if got, _ := fieldIDOf([]byte(name)); got != id {
				t.Errorf("fieldIDOf(%q) = %q", name, got)
			}
		}
		if id.String() != lower || len(lower) > nameBytesMax {
			t.Errorf("%d is %q", id, lower)
		}
		for _, near := range []string{lower[1:] + "x", lower + "x", lower[:len(lower)-1] + "_", "\x11" + lower[1:]} {
			if got, _ := fieldIDOf([]byte(near)); got != FieldOther {
				t.Errorf("fieldIDOf(%q) = %q", near, got)
			}
		}
	}
	for _, name := range []string{"x", "content_length", "content-lengti", "a-name-of-thirty-two-bytes-length", "0e"} {
		if got, _ := fieldIDOf([]byte(name)); got != FieldOther {
			t.Errorf("fieldIDOf(%q) = %q", name, got)
		}
	}
	if other, none := FieldOther.String(), fieldCount.String(); other != "" || none != "" {
		t.Errorf("other fields are called %q, one that does not exist %q; want no names", other, none)
	}
}
