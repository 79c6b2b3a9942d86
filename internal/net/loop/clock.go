package loop

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// never is a time that is never reached.
const never = time.Duration(math.MaxInt64)

// A clock wakes loops at absolute times. One goroutine, locked to its thread, waits for a
// timer of the kernel (timerfd_create(2), absolute, monotonic). Go's timers round waits below
// a millisecond up to one. Unlike a sleeping thread, a timerfd is not subject to timer slack,
// and can be set to an earlier time without waking the thread.
//
// Times are durations since the Group's epoch.
//
// Safe for concurrent use: mu guards everything except fd, which does not change.
type clock struct {
	fd    int
	epoch time.Time
	base  int64 // CLOCK_MONOTONIC at epoch, in nanoseconds
	wake  func(loop int)
	ended sync.WaitGroup

	mu     sync.Mutex
	armed  time.Duration   // time that the timer is set to
	due    []time.Duration // per loop
	closed bool
}

// startClock returns a running clock for n loops. wake is called on the clock's thread for
// each loop whose time has been reached, once per time set.
func startClock(n int, wake func(loop int)) (*clock, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create timer: %w", err)
	}
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("read monotonic clock: %w", err)
	}
	c := &clock{fd: fd, epoch: time.Now(), base: ts.Nano(), wake: wake, armed: never, due: make([]time.Duration, n)}
	for i := range c.due {
		c.due[i] = never
	}
	c.ended.Go(c.run)
	return c, nil
}

// set sets or replaces the time at which loop i is woken. A later time than before costs no
// system call: the thread wakes early, finds nothing due, and sleeps again.
func (c *clock) set(i int, at time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.due[i] = at
	if at < c.armed && !c.closed {
		c.arm(at)
	}
}

// arm sets the timer; mu is held. A time in the past fires immediately.
func (c *clock) arm(at time.Duration) {
	c.armed = at
	spec := unix.ItimerSpec{}
	if at != never {
		spec.Value = unix.NsecToTimespec(max(c.base+int64(at), 1))
	}
	if err := unix.TimerfdSettime(c.fd, unix.TFD_TIMER_ABSTIME, &spec, nil); err != nil {
		panic("bug: set timer: " + err.Error())
	}
}

func (c *clock) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var ticks [8]byte
	fire := make([]int, 0, len(c.due))
	for {
		if _, err := unix.Read(c.fd, ticks[:]); err == unix.EINTR {
			continue
		}
		var closed bool
		if fire, closed = c.take(fire[:0]); closed {
			return
		}
		for _, i := range fire {
			c.wake(i)
		}
	}
}

// take returns the loops that are due, and sets the timer to the next time.
func (c *clock) take(fire []int) ([]int, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Since(c.epoch)
	next := never
	for i, at := range c.due {
		if at <= now {
			c.due[i] = never
			fire = append(fire, i)
			continue
		}
		next = min(next, at)
	}
	c.arm(next)
	return fire, c.closed
}

// stop ends the thread and waits for it.
func (c *clock) stop() {
	c.mu.Lock()
	c.closed = true
	c.arm(0)
	c.mu.Unlock()
	c.ended.Wait()
	_ = unix.Close(c.fd)
}
