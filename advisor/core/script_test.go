package core

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/advisor/policy"
	"weir/internal/test/testkit"
)

// monday is the time at which the tests begin.
var monday = time.Date(2026, 1, 19, 0, 0, 0, 0, time.UTC)

// A player plays one script.
type player struct {
	c     *Core
	lines []string // a line per snapshot, or per run of equal ones
	last  string   // the newest line
	count int      // snapshots that the line stands for
}

// do plays one command:
//
//	a 30s                          proxy a reports the interval that ended 30 s after the start
//	a 30s..15m                     … and so on, each interval
//	a 30s rate=50 limit=10         … with these values, which also hold in later commands until they are set again
//	restart                        the state is encoded and restored
//	forecast                       when the forecast begins, and how long the history is
func (p *player) do(snap map[string]*Snapshot, command string) error {
	words := strings.Fields(command)
	switch words[0] {
	case "restart":
		parts, err := p.c.Parts()
		if err != nil {
			return err
		}
		again, partErrors := Restore(p.c.settings, parts)
		if len(partErrors) > 0 {
			return partErrors[0]
		}
		p.c = again
		return nil
	case "forecast":
		age, _ := p.c.HistoryAge()
		at, _ := p.c.Forecast(time.Hour, time.Minute)
		p.say(fmt.Sprintf("forecast from %v, %v of history", at.Sub(monday), age))
		return nil
	}
	if len(words) < 2 {
		return fmt.Errorf("no time")
	}
	s := snap[words[0]]
	if s == nil {
		s = &Snapshot{Instance: words[0], Interval: 30 * time.Second, Observed: 100, Forwarded: 100, P95: .02,
			Limit: policy.Limit{Algorithm: policy.Fixed, Limit: 200, Window: 1}}
		snap[words[0]] = s
	}
	for _, word := range words[2:] {
		if err := s.set(word); err != nil {
			return err
		}
	}
	from, to, _ := strings.Cut(words[1], "..")
	first, err := time.ParseDuration(from)
	if err != nil {
		return err
	}
	last := first
	if to != "" {
		if last, err = time.ParseDuration(to); err != nil {
			return err
		}
	}
	for at := first; at <= last; at += s.Interval {
		next := *s
		next.At = monday.Add(at)
		next.Ended = next.Forwarded * next.Interval.Seconds()
		p.post(&next)
	}
	return nil
}

// set sets the values that a proxy reports from now on.
func (s *Snapshot) set(word string) (err error) {
	name, value, _ := strings.Cut(word, "=")
	number := func(v *float64) { *v, err = strconv.ParseFloat(value, 64) }
	switch name {
	case "rate":
		number(&s.Observed)
		s.Forwarded = s.Observed
	case "every":
		s.Interval, err = time.ParseDuration(value)
	case "limit":
		number(&s.Limit.Limit)
	case "algorithm":
		s.Limit.Algorithm = value
	case "share":
		number(&s.GateShare)
		s.GateLimit = 20
	case "store":
		s.OwnStore = value == "local"
	default:
		err = fmt.Errorf("unknown word %q", word)
	}
	return err
}

// post lets the core process a snapshot, and records the result.
func (p *player) post(s *Snapshot) {
	rounds := p.c.now.Rounds
	r := p.c.HandleSnapshot(s)
	text := r.Result.String()
	if r.Restarted {
		text += ", anew"
	}
	if sum := &p.c.now.Advice.Sum; p.c.now.Rounds != rounds && p.c.now.Advice.Given {
		text += fmt.Sprintf(", %.4g/s over %v", sum.Observed, sum.Interval)
	}
	if r.Shares > 0 {
		text += fmt.Sprintf(", %.4g/s of %.4g/s for each of %d", r.Limit.Rate(), p.c.now.Advice.Rec.Rate(), r.Shares)
	}
	p.say(s.Instance + " " + text)
}

// say records a line, once for several equal ones.
func (p *player) say(text string) {
	if text != p.last {
		p.lines, p.last, p.count = append(p.lines, text), text, 1
		return
	}
	p.count++
	p.lines[len(p.lines)-1] = fmt.Sprintf("%s × %d", text, p.count)
}

// A block of a script begins with an empty core, unless its first line is "then".
func TestScripts(t *testing.T) {
	testkit.RunScripts(t, func() func([]string) (string, error) {
		var p *player
		var snap map[string]*Snapshot
		return func(commands []string) (string, error) {
			if commands[0] == "then" {
				commands = commands[1:]
			} else {
				p, snap = &player{c: New(Settings{})}, map[string]*Snapshot{}
			}
			p.lines, p.last = nil, ""
			for _, line := range commands {
				if err := p.do(snap, line); err != nil {
					return "", fmt.Errorf("%s: %w", line, err)
				}
			}
			p.lines = append(p.lines, fmt.Sprintf("newest %v, %d rounds", p.c.now.newest().Sub(monday), p.c.now.Rounds))
			return strings.Join(p.lines, "\n"), nil
		}
	})
}
