package looptest

import (
	"fmt"
	"strings"
	"time"
)

// epoch is the time at which a bubble of package synctest begins.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// historyMax is the number of events that a History keeps.
const historyMax = 50

// A History has the latest events of some related connections.
type History struct {
	Name string
	last [historyMax]entry
	n    int
}

// An entry is one event, or several of one kind.
type entry struct {
	at   time.Time
	what string
	n    int64
	text string
}

// Note adds an event. If the last one is of the same kind and neither has a text, they are
// combined.
func (h *History) Note(now time.Time, what string, n int64, text string) {
	if h == nil {
		return
	}
	if h.n > 0 {
		if e := &h.last[(h.n-1)%historyMax]; e.what == what && text == "" && e.text == "" {
			e.at, e.n = now, e.n+n
			return
		}
	}
	h.last[h.n%historyMax] = entry{now, what, n, text}
	h.n++
}

// String returns the entries, one per line.
func (h *History) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "the last events of %s:", h.Name)
	for i := max(0, h.n-historyMax); i < h.n; i++ {
		e := &h.last[i%historyMax]
		fmt.Fprintf(&s, "\n  %12v  %s %d %s", e.at.Sub(epoch), e.what, e.n, e.text)
	}
	return s.String()
}
