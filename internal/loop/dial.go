package loop

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"
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
	most   int
	ctx    context.Context
	cancel context.CancelFunc
	ended  sync.WaitGroup

	mu      sync.Mutex
	running int
	waiting []*dial
}

// dial is one connect asked for.
type dial struct {
	c       *Conn
	addr    string
	timeout time.Duration
	secure  *tls.Config // nil without TLS
}

func newDialer(most int) *dialer {
	d := &dialer{most: most}
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
		job = d.next()
	}
}

func (d *dialer) next() *dial {
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
	nc, err := nd.DialContext(d.ctx, "tcp", job.addr)
	if err == nil {
		c.remote = remoteOf(nc)
		err = job.bring(nc, nd.Deadline)
	}
	if err != nil {
		c.loop.Post(func(now time.Time) { c.failed(now, err) })
	}
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
	p := c.loop.g.newPump(c, nc, func(w net.Conn) *tls.Conn { return tls.Client(w, job.secure) })
	if p == nil {
		_ = nc.Close()
		return net.ErrClosed
	}
	return p.greet(job.addr, by)
}

// stop cancels the dials under way and waits for them.
func (d *dialer) stop() {
	d.cancel()
	d.ended.Wait()
}
