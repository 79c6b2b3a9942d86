package decide

import (
	"testing"
	"time"
)

func TestAppendSeconds(t *testing.T) {
	for span, want := range map[time.Duration]string{
		2989333 * time.Microsecond: "2.989333", time.Microsecond: "0.000001", 90 * time.Minute: "5400", 1500 * time.Millisecond: "1.5",
	} {
		if have := string(appendSeconds(nil, span)); have != want {
			t.Errorf("%v: have %s, want %s", span, have, want)
		}
	}
}
