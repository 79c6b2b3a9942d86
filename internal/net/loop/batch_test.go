package loop

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/net/loop/looptest"
)

// A writeLog is a System that logs what is written, and accepts at most room bytes.
type writeLog struct {
	*looptest.Kernel
	room   int
	writes []string
}

func (k *writeLog) Write(_ int, b []byte) (int, error) {
	n := min(k.room, len(b))
	if n == 0 {
		return 0, unix.EAGAIN
	}
	k.room -= n
	k.writes = append(k.writes, string(b[:n]))
	return n, nil
}

// What is collected is sent by one system call: when the turn or the round ends, when it is too much, or
// before the end of the connection.
func TestBatch(t *testing.T) {
	const roomy = 1 << 20
	long := strings.Repeat("x", 64<<10)
	write := func(b WriteBatching, all ...string) func(c *Conn) {
		return func(c *Conn) {
			c.SetBatch(b)
			for _, s := range all {
				c.Write([]byte(s))
			}
		}
	}
	closing := func(end func(c *Conn)) func(c *Conn) {
		return func(c *Conn) {
			write(BatchRound, "b")(c)
			end(c)
		}
	}
	for _, test := range []struct {
		name  string
		room  int
		turns []func(c *Conn)
		want  []string // before the end of the round
		then  []string // at its end
	}{
		{"none", roomy, []func(c *Conn){write(BatchNone, "a", "b")}, []string{"a", "b"}, nil},
		{"turn", roomy, []func(c *Conn){write(BatchTurn, "a", "b"), write(BatchTurn, "c")}, []string{"ab", "c"}, nil},
		{"round", roomy, []func(c *Conn){write(BatchRound, "a"), write(BatchRound, "b", "c")}, nil, []string{"abc"}},
		{"round and turn", roomy, []func(c *Conn){write(BatchRound, "a"), write(BatchTurn, "b"), write(BatchRound, "c")},
			[]string{"ab"}, []string{"c"}},
		{"as much as may be unsent", roomy, []func(c *Conn){write(BatchRound, "a", long[1:])}, nil, []string{"a" + long[1:]}},
		{"more", roomy, []func(c *Conn){write(BatchRound, "a", long, "b")}, []string{"a", long}, []string{"b"}},
		{"no room", 1, []func(c *Conn){write(BatchTurn, "a", "b"), write(BatchTurn, "c")}, []string{"a"}, nil},
		{"CloseWrite", roomy, []func(c *Conn){write(BatchRound, "a"), closing((*Conn).CloseWrite)}, []string{"ab"}, nil},
		{"CloseDrained", roomy, []func(c *Conn){closing((*Conn).CloseDrained)}, []string{"b"}, nil},
		{"CloseLinger", roomy, []func(c *Conn){closing((*Conn).CloseLinger)}, []string{"b"}, nil},
		{"CloseCut", roomy, []func(c *Conn){closing((*Conn).CloseIncomplete)}, []string{"b"}, nil},
		{"Close", roomy, []func(c *Conn){closing((*Conn).Close)}, []string{"b"}, nil},
		{"Abort", roomy, []func(c *Conn){closing((*Conn).Abort)}, nil, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			k := &writeLog{Kernel: looptest.NewKernel(rand.New(rand.NewPCG(1, 1))), room: test.room}
			g, err := Start(Config{Loops: 1, System: k})
			if err != nil {
				t.Fatal(err)
			}
			var c *Conn
			from := k.NewListener()
			ln := g.Serve(from, nil, func(_ time.Time, made *Conn) Handler {
				c = made
				return new(script)
			})
			peer := k.NewSocket("peer ", netip.MustParseAddrPort("10.0.0.1:1"), nil)
			k.After(0, func() { from.Connect(peer) })
			for c == nil {
				k.Step()
			}
			l := g.loops[0]
			for _, turn := range test.turns {
				now := l.enter()
				turn(c)
				l.leave(now)
			}
			if got := k.writes; !slices.Equal(got, test.want) {
				t.Errorf("%s: before the end of the round were written %.40q, want %.40q", test.name, got, test.want)
			}
			k.writes = nil
			if err := l.turn(context.Background()); err != nil {
				t.Error(err)
			}
			if got := k.writes; !slices.Equal(got, test.then) {
				t.Errorf("%s: at the end of the round were written %.40q, want %.40q", test.name, got, test.then)
			}
			k.Await(func() {
				ln.Close()
				g.Stop()
			})
		})
	}
}
