package sessiontest

import (
	"fmt"
	"strings"
	"time"
)

// historyMax is how many events of one connection are told after a failure.
const historyMax = 50

// A history is what happened last on a client's connection and on those of
// targets that served it.
type history struct {
	name string
	last [historyMax]entry
	n    int
}

// An entry is one thing that happened.
type entry struct {
	at   time.Time
	what string
	n    int64
	text string
}

// note adds an entry, or adds to one of the same kind. n and text are whatever
// belongs to it.
func (h *history) note(now time.Time, what string, n int64, text string) {
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

// String tells the entries, one to a line.
func (h *history) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "the last events of %s:", h.name)
	for i := max(0, h.n-historyMax); i < h.n; i++ {
		e := &h.last[i%historyMax]
		fmt.Fprintf(&s, "\n  %12v  %s %d %s", e.at.Sub(epoch), e.what, e.n, e.text)
	}
	return s.String()
}
