package loop

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// waitingDialsMax bounds the dials that wait for their turn, per Group.
const waitingDialsMax = 1 << 16

// ErrDialsBusy: more dials wait than a Group will hold.
var ErrDialsBusy = errors.New("dial: too many dials are waiting")

// A dialer connects beside the loops, as gnet's own dial has neither timeout
// nor bound: one goroutine per connect under way, never per request.
//
// Safe for concurrent use: mu guards all fields.
type dialer struct {
	most    int
	sources []netip.Addr
	ctx     context.Context
	cancel  context.CancelFunc
	ended   sync.WaitGroup

	mu      sync.Mutex
	running int
	waiting []*dial
	next    int // of sources
}

// dial is one connect asked for.
type dial struct {
	c       *Conn
	addr    string
	timeout time.Duration
	secure  *tls.Config // nil without TLS
}

func newDialer(most int, sources []netip.Addr) *dialer {
	d := &dialer{most: most, sources: sources}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d
}

// Dial connects to addr ("host:port") and tells dialled on this loop how it
// went. The timeout counts from when the dial begins; at most Config.DialsMax
// are under way at a time.
func (l *Loop) Dial(addr string, timeout time.Duration, dialled DialFunc) {
	c := newConn(l)
	c.dialled = dialled
	l.dial(&dial{c: c, addr: addr, timeout: timeout})
}

func (l *Loop) dial(job *dial) {
	if !l.g.dialer.begin(job) {
		l.Post(func(now time.Time) { job.c.failed(now, ErrDialsBusy) })
	}
}

// begin starts d or has it wait; false when too many wait already.
func (d *dialer) begin(job *dial) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running >= d.most {
		if len(d.waiting) >= waitingDialsMax {
			return false
		}
		d.waiting = append(d.waiting, job)
		return true
	}
	d.running++
	d.ended.Add(1)
	go d.run(job)
	return true
}

// run does a job and then those that wait.
func (d *dialer) run(job *dial) {
	defer d.ended.Done()
	for job != nil {
		d.connect(job)
		job = d.take()
	}
}

// take returns a job that waits; nil when this goroutine is to end.
func (d *dialer) take() *dial {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.waiting) == 0 || d.ctx.Err() != nil {
		d.running--
		return nil
	}
	job := d.waiting[0]
	d.waiting[0] = nil
	d.waiting = d.waiting[1:]
	return job
}

func (d *dialer) connect(job *dial) {
	c := job.c
	var nd net.Dialer
	if job.timeout > 0 {
		nd.Deadline = time.Now().Add(job.timeout)
	}
	nc, err := d.reach(nd, job.addr)
	if err == nil {
		c.remote = addrPortOf(nc.RemoteAddr())
		err = job.bring(nc, nd.Deadline)
	}
	if err != nil {
		c.loop.Post(func(now time.Time) { c.failed(now, err) })
	}
}

// reach connects from the next of the sources. When its ports are all taken,
// which is EADDRNOTAVAIL, the others are tried.
func (d *dialer) reach(nd net.Dialer, addr string) (nc net.Conn, err error) {
	if len(d.sources) == 0 {
		return nd.DialContext(d.ctx, "tcp", addr)
	}
	nd.Control = latePort
	for range d.sources {
		nd.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(d.source(), 0))
		nc, err = nd.DialContext(d.ctx, "tcp", addr)
		if !errors.Is(err, unix.EADDRNOTAVAIL) {
			break
		}
	}
	return nc, err
}

// source is the address whose turn it is.
func (d *dialer) source() netip.Addr {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.next++
	return d.sources[d.next%len(d.sources)]
}

// latePort has the kernel choose the port when it connects, not when it binds:
// only then does it know the other end, without which a port serves one
// connection of the whole machine (ip(7), IP_BIND_ADDRESS_NO_PORT).
func latePort(_, _ string, c syscall.RawConn) error {
	var err error
	if e := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
	}); e != nil {
		return e
	}
	if err != nil {
		return os.NewSyscallError("setsockopt IP_BIND_ADDRESS_NO_PORT", err)
	}
	return nil
}

// bring takes a new connection to its loop, within the given time.
func (job *dial) bring(nc net.Conn, by time.Time) error {
	c := job.c
	if job.secure == nil {
		e, err := c.enroll(nc)
		if err == nil {
			e.await()
		}
		return err
	}
	p := c.newPump(nc, func(w net.Conn) *tls.Conn { return tls.Client(w, job.secure) })
	if p == nil {
		_ = nc.Close()
		return net.ErrClosed
	}
	return c.greet(p, job.addr, by)
}

// stop cancels the dials under way and waits for them.
func (d *dialer) stop() {
	d.cancel()
	d.ended.Wait()
}
