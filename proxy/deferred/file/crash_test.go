package file

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/deferred"
	"weir/proxy/deferred/deferredtest"
)

// load puts, claims and settles until it is killed, and writes a line about each thing before it
// begins and after it is durable.
func load(path string) error {
	q, err := Open(time.Now(), Config{Path: path, Limits: deferredtest.LargeLimits})
	if err != nil {
		return err
	}
	say := func(words ...any) { _, _ = os.Stdout.WriteString(fmt.Sprintln(words...)) }
	for range 3 {
		go func() {
			for n := 0; ; n++ {
				e := order(fmt.Sprint("shop ", rand.IntN(20)), make([]byte, rand.IntN(3000)))
				if n%2 == 0 {
					e = deferredtest.WithKey(e)
				}
				say("put", e.ID, e.Keyed())
				if s := deferredtest.Put(q, e); s.Outcome == deferred.Accepted {
					say("accepted", e.ID)
				}
			}
		}()
	}
	for {
		claimed, _, err := q.Claim(context.Background(), time.Now(), 16)
		if err != nil {
			return err
		}
		for _, c := range claimed {
			say("claimed", c.Entry.ID)
			to := []deferred.State{deferred.Done, deferred.Failed, deferred.Unknown, deferred.Waiting}[rand.IntN(4)]
			say("settling", c.Entry.ID, to)
			q.Settle(time.Now(), &deferred.Settlement{Lease: c.Lease, To: to, Due: time.Now(), Attempt: true,
				Keep: time.Hour, Done: func(err error) {
					if err == nil {
						say("settled", c.Entry.ID, to)
					}
				}})
		}
	}
}

// A fate is what the lines of load say about an entry.
type fate struct {
	keyed    bool
	accepted bool
	claimed  bool   // and not settled so that it waits again
	settling string // what it is to become; it may be that or not
	final    string // what it has become for good
}

// fates is what all processes said.
type fates map[string]*fate

// hear takes a line to the notes.
func (f fates) hear(t *testing.T, line string) {
	words := strings.Fields(line)
	if len(words) < 2 {
		return // the last line may be cut
	}
	e := f[words[1]]
	if e == nil {
		e = &fate{}
		f[words[1]] = e
	}
	switch words[0] {
	case "put":
		e.keyed = words[2] == "true"
	case "accepted":
		e.accepted = true
	case "claimed":
		if e.final != "" {
			t.Errorf("%s is claimed after it was %s", words[1], e.final)
		}
		if e.claimed && !e.keyed {
			t.Errorf("%s is claimed again without a key", words[1])
		}
		e.claimed = true
	case "settling":
		// What is settled as waiting may be claimed before the line that says so.
		if e.settling = words[2]; e.settling == "waiting" {
			e.claimed = false
		}
	case "settled":
		if words[2] != "waiting" {
			e.final = words[2]
		}
	}
}

// killsEnv is how many times TestKill kills; 12 if it is not set.
const killsEnv = "WEIR_KILLS"

// However often a process is killed that writes to a queue, what it has accepted is there, and what
// it has settled stays so.
func TestKill(t *testing.T) {
	t.Parallel()
	path := queuePath(t)
	kills := 12
	if n, err := strconv.Atoi(os.Getenv(killsEnv)); err == nil {
		kills = n
	}
	f := fates{}
	for range kills {
		cmd := testkit.Command(t, nil, "load", path)
		out := testkit.Must(cmd.StdoutPipe())(t)
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		kill := 1 + rand.IntN(300)
		for n := 0; lines.Scan(); n++ {
			if f.hear(t, lines.Text()); n == kill {
				_ = cmd.Process.Kill()
			}
		}
		if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Fatalf("the process has ended by itself: %v", err)
		}
	}
	f.compare(t, opened(t, Config{Path: path}))
}

// compare wants the queue to have what was said.
func (f fates) compare(t *testing.T, q *Queue) {
	accepted, final := 0, 0
	for text, e := range f {
		id, err := deferred.ParseID(text)
		if err != nil {
			continue // the last line may be cut
		}
		got, _, err := q.Read(t.Context(), id)
		if e.accepted {
			accepted++
		}
		switch {
		case err != nil && e.accepted:
			t.Errorf("%s was accepted: %v", id, err)
		case err != nil:
		case e.final != "":
			if final++; got.State.String() != e.final {
				t.Errorf("%s was %s and is %s", id, e.final, got.State)
			}
		case got.State == deferred.Unknown && (e.keyed || !e.claimed && e.settling == ""):
			// What was claimed in the last moment may not have been said.
			if e.keyed && e.settling != "unknown" {
				t.Errorf("%s is %s with a key", id, got.State)
			}
		case got.State.Final() && got.State != deferred.Unknown && got.State.String() != e.settling:
			t.Errorf("%s is %s and was to be %s", id, got.State, e.settling)
		}
	}
	sum := 0
	for _, r := range q.Stats().Rules {
		for _, c := range r.States {
			sum += c.Entries
		}
	}
	if sum < accepted || sum > len(f) || accepted == 0 {
		t.Errorf("%d were accepted, %d put, there are %d", accepted, len(f), sum)
	}
	t.Logf("%d accepted, %d settled", accepted, final)
}
