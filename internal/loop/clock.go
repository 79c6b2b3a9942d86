package loop

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// farAway is a time that never comes: nothing is due.
const farAway = time.Duration(math.MaxInt64)

// A clock wakes loops at absolute times. One goroutine, locked to its thread,
// sleeps on a timer of the kernel (timerfd_create(2), absolute, monotonic):
// Go's own timers round waits below a millisecond up to one, and a timerfd,
// unlike a sleeping thread, is not subject to timer slack and can be set to an
// earlier time by whoever needs it without waking the thread first.
//
// Times are durations since the Group's epoch.
//
// Safe for concurrent use: mu guards everything but fd, which never changes.
type clock struct {
	fd    int
	epoch time.Time
	base  int64 // CLOCK_MONOTONIC at epoch, in nanoseconds
	wake  func(loop int)
	ended sync.WaitGroup

	mu     sync.Mutex
	armed  time.Duration   // what the timer is set to
	due    []time.Duration // per loop
	closed bool
}

// startClock returns a running clock for n loops. wake is called on the
// clock's thread for each loop whose time has come, once per time set.
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
	c := &clock{fd: fd, epoch: time.Now(), base: ts.Nano(), wake: wake, armed: farAway, due: make([]time.Duration, n)}
	for i := range c.due {
		c.due[i] = farAway
	}
	c.ended.Add(1)
	go c.run()
	return c, nil
}

// set says that loop i wants to be woken at the given time; it replaces the
// time set before. Setting a later time costs no system call: the thread then
// wakes early, finds nothing due and sleeps on.
func (c *clock) set(i int, at time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.due[i] = at
	if at < c.armed && !c.closed {
		c.arm(at)
	}
}

// arm sets the timer; mu is held. A time in the past fires at once.
func (c *clock) arm(at time.Duration) {
	c.armed = at
	spec := unix.ItimerSpec{}
	if at != farAway {
		spec.Value = unix.NsecToTimespec(max(c.base+int64(at), 1))
	}
	if err := unix.TimerfdSettime(c.fd, unix.TFD_TIMER_ABSTIME, &spec, nil); err != nil {
		panic("bug: set timer: " + err.Error())
	}
}

func (c *clock) run() {
	defer c.ended.Done()
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

// take returns the loops whose time has come and sets the timer to the next.
func (c *clock) take(fire []int) ([]int, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Since(c.epoch)
	next := farAway
	for i, at := range c.due {
		if at <= now {
			c.due[i] = farAway
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
