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

// waitingDialsMax bounds the waiting dials of a Group.
const waitingDialsMax = 1 << 16

// ErrTooManyDials means that too many dials wait.
var ErrTooManyDials = errors.New("dial: too many dials are waiting")

// A dialer connects outside the loops, because gnet's dial has neither a timeout nor a bound. It
// uses one goroutine per connect in progress.
//
// Safe for concurrent use: mu guards all fields.
type dialer struct {
	most    int
	sources []netip.Addr
	system  System
	ctx     context.Context
	cancel  context.CancelFunc
	ended   sync.WaitGroup

	mu      sync.Mutex
	running int
	waiting []*dial
	next    int // of sources
}

// A dial is a requested connect.
type dial struct {
	c       *Conn
	addr    string
	timeout time.Duration
	secure  *tls.Config // nil without TLS
}

func newDialer(cfg *Config) *dialer {
	d := &dialer{most: cfg.DialsMax, sources: cfg.Sources, system: cfg.System}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d
}

// Dial connects to addr ("host:port") and calls dialled with the result, on this loop. The
// timeout counts from the start of the dial, which may have to wait; see Config.DialsMax and DialPace.
//
// If secure is not nil a TLS handshake follows, within the timeout. secure is not changed; without
// a ServerName the certificate must match the host of addr. The error is that of the connect or a
// *HandshakeError.
func (l *Loop) Dial(addr string, timeout time.Duration, secure *tls.Config, dialled DialFunc) {
	job := &dial{c: newConn(l), addr: addr, timeout: timeout}
	job.c.dialled = dialled
	if secure != nil {
		job.secure = named(secure, addr)
	}
	if l.g.cfg.DialPace > 0 {
		l.paced(addr).add(job)
	} else {
		l.begin(job)
	}
}

// begin begins a dial.
func (l *Loop) begin(job *dial) {
	if !l.g.dialer.begin(job) {
		l.Post(func(now time.Time) { job.c.failed(now, ErrTooManyDials) })
	}
}

// begin starts a dial or makes it wait. It returns false if too many wait.
func (d *dialer) begin(job *dial) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx.Err() != nil {
		return false // ended is being waited for
	}
	if d.running >= d.most {
		if len(d.waiting) >= waitingDialsMax {
			return false
		}
		d.waiting = append(d.waiting, job)
		return true
	}
	d.running++
	d.ended.Go(func() { d.run(job) })
	return true
}

// stop cancels all dials. None begins from then on.
func (d *dialer) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cancel()
}

// run carries out a dial, and then those that wait.
func (d *dialer) run(job *dial) {
	for job != nil {
		d.connect(job)
		job = d.take()
	}
}

// take returns a waiting dial, or nil if this goroutine must end.
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

// reach connects from the next source. If that has no free port (EADDRNOTAVAIL), it tries the
// others.
func (d *dialer) reach(nd net.Dialer, addr string) (nc net.Conn, err error) {
	if len(d.sources) == 0 {
		return d.system.Dial(d.ctx, &nd, addr)
	}
	nd.Control = latePort
	for range d.sources {
		nd.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(d.source(), 0))
		nc, err = d.system.Dial(d.ctx, &nd, addr)
		if !errors.Is(err, unix.EADDRNOTAVAIL) {
			break
		}
	}
	return nc, err
}

// source returns the next source.
func (d *dialer) source() netip.Addr {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.next++
	return d.sources[d.next%len(d.sources)]
}

// latePort makes the kernel choose the port at connect instead of bind. Only then does it know
// the remote address, and a port can serve several connections (ip(7),
// IP_BIND_ADDRESS_NO_PORT).
func latePort(_, _ string, c syscall.RawConn) (err error) {
	ctlErr := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_BIND_ADDRESS_NO_PORT,
			1)
	})
	return errors.Join(ctlErr, os.NewSyscallError("setsockopt IP_BIND_ADDRESS_NO_PORT", err))
}

// bring brings a new connection to its loop; by is the deadline.
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
