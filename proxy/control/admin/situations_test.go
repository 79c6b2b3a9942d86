package admin

import (
	"fmt"
	"testing"
)

// Every event leads from each situation to one other, unless it cannot happen there: an earlier
// change is found only if one is known, and written again only what the store lacks.
func TestMoves(t *testing.T) {
	impossible := map[event]situation{
		eventEarlier:    situationNowhere | situationUnreadable,
		eventWritten:    situationsAll &^ situationsUnwritten,
		eventNotWritten: situationsAll &^ situationsUnwritten,
	}
	reached := situationNowhere
	for e := eventSame; e <= eventNotWritten; e++ {
		for s := situationNowhere; s != 0; s <<= 1 {
			var to []situation
			for _, m := range moves {
				if m.on == e && s.in(m.from) {
					to = append(to, m.to)
					reached |= m.to
				}
			}
			want := 1
			if s.in(impossible[e]) {
				want = 0
			}
			if len(to) != want {
				t.Errorf("event %d in situation %v leads to %v, want %d situations", e, s, to, want)
			}
		}
	}
	if reached != situationsAll {
		t.Errorf("the situations %08b are reached, want all", reached)
	}
}

// What is impossible is a fault of the program.
func TestImpossibleMove(t *testing.T) {
	defer func() {
		const want = "bug: admin: event 6 in situation store"
		if got := fmt.Sprint(recover()); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}()
	situationStore.after(eventWritten)
}
