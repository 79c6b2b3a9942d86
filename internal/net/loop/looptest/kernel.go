package looptest

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/panjf2000/gnet/v2"

	"weir/internal/timing/agenda"
)

// A Kernel simulates gnet and the system for a loop.Group (see loop.Config), with the peers of its
// connections, in the time of a bubble of package synctest. What happens in between, in which pieces,
// and what fails is chosen at random: the same random numbers give the same events.
//
// The Group's loops, and the peers, run on the goroutine that calls Step; its other goroutines run
// while Step waits. What they ask for happens in an order that does not depend on the scheduler.
//
// Owned by the goroutine that calls Step, except for what loop.System says and Later.
type Kernel struct {
	*rand.Rand
	// Failed is called when the Group breaks a rule, with the history of the connection.
	Failed func(h *History, format string, args ...any)
	// Reach returns the socket to addr after a time, or an error; it is required to dial.
	Reach func(addr string) (s *Socket, after time.Duration, err error)
	// Faults is the chance of a system call to fail that may fail for lack of descriptors.
	Faults float64
	// EnrolMax bounds how long a socket is on its way into a loop.
	EnrolMax time.Duration
	Quiet    bool // Fault is never true

	epoch  time.Time
	queue  agenda.Queue[time.Duration, func()] // by the time since epoch
	late   []func()                            // at the end of the event
	timer  *time.Timer
	serial int

	handler gnet.EventHandler
	loops   []*engine
	files   map[int]*Socket
	lastFD  int
	depth   int      // of calls of handler
	lent    [][]byte // to a Handler that has read them

	mu    sync.Mutex
	inbox []call        // what other goroutines ask for
	mail  chan struct{} // inbox has something
}

// A call is something that another goroutine asks for. The calls of one instant are sorted by key.
type call struct {
	key string
	do  func()
}

// NewKernel returns a Kernel of which nothing fails. It must be called in a bubble.
func NewKernel(r *rand.Rand) *Kernel {
	k := &Kernel{Rand: r, EnrolMax: 5 * time.Millisecond, epoch: time.Now(), timer: time.NewTimer(0),
		files: make(map[int]*Socket), mail: make(chan struct{}, 1)}
	k.timer.Stop()
	return k
}

// Now returns the time.
func (k *Kernel) Now() time.Time { return time.Now() }

// Since returns the time since the Kernel was made.
func (k *Kernel) Since() time.Duration { return time.Since(k.epoch) }

// Events returns the number of future events.
func (k *Kernel) Events() int {
	synctest.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.queue.Len() + len(k.inbox)
}

// Step waits for the next event and handles it.
func (k *Kernel) Step() {
	for !k.due() {
		k.timer.Stop()
		if k.queue.Len() > 0 {
			k.timer.Reset(k.queue.First() - k.Since())
		}
		select {
		case <-k.timer.C:
		case <-k.mail:
		}
	}
	_, do := k.queue.Next()
	do()
	for _, f := range k.late {
		f()
	}
	k.late = k.late[:0]
}

// due reports whether there is an event now, after all other goroutines have come to rest.
func (k *Kernel) due() bool {
	synctest.Wait()
	k.mu.Lock()
	calls := k.inbox
	k.inbox = nil
	k.mu.Unlock()
	slices.SortStableFunc(calls, func(a, b call) int { return strings.Compare(a.key, b.key) })
	for _, c := range calls {
		c.do()
	}
	return k.queue.Len() > 0 && k.queue.First() <= k.Since()
}

// Later calls do on the goroutine of the Kernel, after the current event. Safe for concurrent use.
func (k *Kernel) Later(key string, do func()) {
	k.mu.Lock()
	k.inbox = append(k.inbox, call{key, do})
	k.mu.Unlock()
	select {
	case k.mail <- struct{}{}:
	default:
	}
}

// Await runs f on a goroutine of its own, and events until it returns: f may wait for the Group.
func (k *Kernel) Await(f func()) {
	done := false
	go func() {
		f()
		k.Later("done", func() { k.After(0, func() { done = true }) })
	}()
	for !done {
		k.Step()
	}
}

// Until runs events up to a time.
func (k *Kernel) Until(end time.Time) {
	over := false
	k.At(end, func() { over = true })
	for !over {
		k.Step()
	}
}

// After schedules do after d.
func (k *Kernel) After(d time.Duration, do func()) { k.queue.Add(k.Since()+d, do) }

// At schedules do at t.
func (k *Kernel) At(t time.Time, do func()) { k.queue.Add(t.Sub(k.epoch), do) }

// Serial returns consecutive numbers from 1.
func (k *Kernel) Serial() int {
	k.serial++
	return k.serial
}

// Odds returns true with probability p.
func (k *Kernel) Odds(p float64) bool { return p > 0 && k.Float64() < p }

// Fault returns true with probability p, unless the Kernel is quiet.
func (k *Kernel) Fault(p float64) bool { return !k.Quiet && k.Odds(p) }

// Within returns a random time up to d.
func (k *Kernel) Within(d time.Duration) time.Duration { return time.Duration(k.Int64N(int64(d) + 1)) }

// CheckEmpty fails unless no socket is left.
func (k *Kernel) CheckEmpty() {
	for fd := 1; fd <= k.lastFD; fd++ {
		if s := k.files[fd]; s != nil {
			k.Failed(s.Log, "descriptor %d, of socket %d, is left open", fd, s.ID)
		}
	}
}

// open returns a new descriptor. No number is used twice.
func (k *Kernel) open(s *Socket) int {
	k.lastFD++
	k.files[k.lastFD] = s
	s.files++
	return k.lastFD
}

// socket is that of a descriptor, which must be open.
func (k *Kernel) socket(fd int) *Socket {
	s := k.files[fd]
	if s == nil {
		k.Failed(nil, "descriptor %d is used, which is not open", fd)
		s = k.NewSocket("", netip.AddrPort{}, nil)
		s.Lost = k.Now()
	}
	return s
}

// Poison overwrites bytes that must no longer be used.
func Poison(b []byte) {
	for i := range b {
		b[i] = 0xDD
	}
}

// key returns a key of which those of one kind sort like n.
func key(what string, n int) string { return fmt.Sprintf("%s %8d", what, n) }
