package gate

import (
	"fmt"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

// Each situation has its row of the table, which the documentation shows.
func TestMoves(t *testing.T) {
	text := fmt.Sprintf("%-18s%s\n", "situation", "move")
	for i, m := range moves {
		if int(m.of) != i {
			t.Fatalf("row %d is that of %v", i, m.of)
		}
		text += fmt.Sprintf("%-18v%s\n", m.of, m.why)
	}
	testkit.RequireShown(t, "../../../docs/design/005-gate.md", "```\nsituation (?s:.*?)```\n", "```\n"+text+"```\n")
}

// What the facts say has a name.
func TestSituation(t *testing.T) {
	const brief, long = burst - 1, queueStands + 1
	for _, c := range []struct {
		facts facts
		want  situation
	}{
		{facts{tooFar: true, probing: true, full: true}, cutTooFar},
		{facts{first: true, full: true}, firstAnswers},
		{facts{probing: true, full: true}, probeOver},
		{facts{due: true, full: true}, probeDue},

		{facts{full: true, waiting: .8, noise: .1, bound: brief, queued: brief}, fullBriefly},
		{facts{full: true, waiting: .8, noise: .1, bound: brief, queued: long}, fullOverloaded},
		{facts{full: true, waiting: .8, noise: .1, bound: long, slumped: true}, fullOverloaded},
		{facts{full: true, waiting: .8, noise: .1, bound: long, lowest: true}, fullBusy},
		{facts{full: true, waiting: .8, noise: .3, bound: long}, uncertain},
		{facts{full: true, waiting: .8, noise: .3, bound: long, long: true}, fullBusy},
		{facts{full: true, waiting: .02, noise: .3}, uncertain},
		{facts{full: true, waiting: .02, noise: .3, starts: true}, fullStarting},
		{facts{full: true, waiting: .02, noise: .3, slumped: true, long: true}, fullSlower},
		{facts{full: true, waiting: .02, noise: .01}, fullCalm},
		{facts{full: true, waiting: .02, noise: .01, mixed: true}, uncertain},
		{facts{full: true, waiting: .02, noise: .01, mixed: true, long: true}, fullMixed},
		{facts{full: true, waiting: .8, noise: .1, bound: long, mixed: true, long: true}, fullOverloaded},
		{facts{full: true, waiting: .07, noise: .01}, fullBusy},

		{facts{waiting: .3}, uncertain},
		{facts{waiting: .3, long: true}, roomBusy},
		{facts{waiting: .8, noise: .1, lately: .6, queued: long, long: true}, roomOverloaded},
		{facts{waiting: .8, noise: .1, lately: .6, queued: brief, long: true}, roomQueued},
		{facts{waiting: .8, noise: .2, lately: .6, queued: long, long: true, ample: true}, roomAmple},
		{facts{waiting: .1, noise: .01, lately: .1, queued: long}, roomCalm},
		{facts{waiting: .2, noise: .01, lately: .1}, roomBusy},
		{facts{waiting: .1, noise: .01, lately: .1, mixed: true}, roomBusy},
		{facts{waiting: .1, noise: .01, lately: .1, mixed: true, ample: true}, roomCalm},
		{facts{waiting: .2, noise: .01, lately: .1, queued: long}, roomQueued},
		{facts{waiting: .1, noise: .01, lately: .2, ample: true}, roomAmple},
	} {
		if got := c.facts.situation(); got != c.want {
			t.Errorf("%+v: %v, want %v", c.facts, got, c.want)
		}
	}
}

// The least limit is left once it has lasted: nothing else would raise it if the target has become
// slower for good.
func TestLowest(t *testing.T) {
	g, now := answered(20 * time.Millisecond)
	g.set(0)
	r := reading{full: true}
	for _, c := range []struct {
		after time.Duration
		want  bool
	}{{leastLong - 1, false}, {leastLong, true}} {
		g.bound = now.Add(-c.after)
		if f := g.facts(now, &r); f.lowest != c.want {
			t.Errorf("after %v: lowest is %t, want %t", c.after, f.lowest, c.want)
		}
	}
}
