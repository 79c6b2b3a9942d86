package session

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/net/cycle"
	"weir/internal/test/testkit"
)

// epoch is when every test begins.
var epoch = time.Date(2026, 1, 19, 16, 30, 0, 0, time.UTC)

// A player plays one script: it does for one Session what the rim does, with a
// clock turned by hand.
type player struct {
	sh     LoopState
	s      *Session
	now    time.Time
	unread []byte
	said   strings.Builder
}

func newPlayer() *player {
	p := &player{now: epoch}
	p.s = New(p.now, &p.sh)
	return p
}

// do plays one command:
//
//	bytes "…"       the quoted bytes come
//	fill 100        100 bytes x come
//	answer 503      the service answers
//	reply 200 "…"   the own endpoint replies, as text/plain
//	wait 10s        time passes, at once
//	drain           the program is to end
func (p *player) do(command string) error {
	word, rest, _ := strings.Cut(command, " ")
	switch word {
	case "bytes":
		text, err := strconv.Unquote(rest)
		if err != nil {
			return fmt.Errorf("unquote %s: %w", rest, err)
		}
		p.feed([]byte(text))
	case "fill":
		n, err := strconv.Atoi(rest)
		if err != nil {
			return err
		}
		p.feed(bytes.Repeat([]byte("x"), n))
	case "answer":
		status, err := strconv.Atoi(rest)
		if err != nil {
			return err
		}
		p.s.HandleAnswer(p.now, status)
		p.pump()
	case "reply":
		var status int
		var body []byte
		if _, err := fmt.Sscanf(rest, "%d %q", &status, &body); err != nil {
			return fmt.Errorf("scan reply %s: %w", rest, err)
		}
		p.s.HandleReply(p.now, status, [][2]string{{"Content-Type", "text/plain"}, {"Vary", "Accept-Encoding"}}, body)
		p.pump()
	case "wait":
		d, err := time.ParseDuration(rest)
		if err != nil {
			return err
		}
		p.now = p.now.Add(d)
		p.s.HandleExpired(p.now)
		p.tell()
	case "drain":
		p.s.HandleDrain(p.now)
		p.tell()
	default:
		return fmt.Errorf("unknown command %q", command)
	}
	return nil
}

func (p *player) feed(b []byte) {
	p.unread = append(p.unread, b...)
	n := p.s.HandleData(p.now, p.unread)
	p.unread = p.unread[n:]
	p.tell()
}

// pump shows the unread bytes again after an answer.
func (p *player) pump() {
	p.tell()
	if p.s.Unread() {
		p.feed(nil)
	}
}

// tell writes the effects down.
func (p *player) tell() {
	say := func(format string, values ...any) { fmt.Fprintf(&p.said, format+"\n", values...) }
	for _, line := range strings.SplitAfter(string(p.sh.Out), "\r\n\r\n") {
		if line != "" {
			say("send %q", line)
		}
	}
	for _, e := range p.sh.Answered {
		say("answered %s %s %d after %v", e.Method, e.Endpoint, e.Status, e.Took)
	}
	switch p.sh.Await {
	case AwaitService:
		say("ask service")
	case AwaitOwn:
		raw := string(p.sh.Raw)
		if len(raw) > 1000 {
			raw = raw[:60] + "…" + strconv.Itoa(len(raw)-60) + " more"
		}
		say("ask own %q", raw)
	}
	switch p.sh.Close {
	case cycle.CloseDrained:
		say("close drained")
	case cycle.CloseLinger:
		say("close linger")
	}
	p.sh.Reset()
	if len(p.unread) > 0 {
		say("%s, %d unread", p.s.cycle.State, len(p.unread))
	}
	if until := p.s.Deadline(); !until.IsZero() {
		say("%s until +%v", p.s.cycle.State, until.Sub(p.now))
	}
}

// The command new begins a new connection.
func TestScripts(t *testing.T) {
	testkit.RunScripts(t, func() func([]string) (string, error) {
		p := newPlayer()
		return func(commands []string) (string, error) {
			p.said.Reset()
			for _, line := range commands {
				if line == "new" {
					p = newPlayer()
				} else if err := p.do(line); err != nil {
					return "", fmt.Errorf("%s: %w", line, err)
				}
			}
			return p.said.String(), nil
		}
	})
}
