package postgres

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"weir/proxy/store"
)

// versionMin is the oldest version of PostgreSQL with the features that the functions use.
const versionMin = 13

// A job is a call or a statement that waits for a connection, and its result.
//
// Owned by its caller until it is sent, then by the connection's goroutine until done is closed.
// A caller that stops waiting must not use it again.
type job struct {
	ctx    context.Context
	silent time.Duration // how long the answer may take before the connection is closed
	script bool          // sql has several statements without params
	limit  time.Duration // bound on the execution time; 0: according to the server's settings
	pinned bool          // names in sql are those of pg_catalog, whatever others have created

	// function is the OID of the function that sql calls with params, or 0 to execute sql. It is
	// set to 0 when an answer shows that the OID has changed.
	function *atomic.Uint32

	sql    string
	types  []uint32
	params [][]byte

	done   chan struct{}
	result *pgconn.Result
	err    error
}

// A pool is a few connections, each used by one goroutine.
//
// Safe for concurrent use: jobs are passed through a channel, explicit is atomic.
type pool struct {
	cfg      *pgconn.Config
	stop     context.CancelFunc
	stopping context.Context
	jobs     chan *job
	running  sync.WaitGroup
	silent   time.Duration
	explicit atomic.Bool // the server's default isolation level is not READ COMMITTED
}

func newPool(cfg *pgconn.Config, connections int, silent time.Duration) *pool {
	p := &pool{cfg: cfg, silent: silent, jobs: make(chan *job)}
	p.stopping, p.stop = context.WithCancel(context.Background())
	for range connections {
		p.running.Go(p.keep)
	}
	return p
}

func (p *pool) close() {
	p.stop()
	p.running.Wait()
}

// job returns a job that executes a statement. args may be nil.
func (p *pool) job(ctx context.Context, sql string, args *Args) *job {
	j := &job{ctx: ctx, silent: p.silent, sql: sql}
	if args != nil {
		j.types, j.params = args.types, args.values
	}
	return j
}

// query executes a statement in which names are those of pg_catalog.
func (p *pool) query(ctx context.Context, sql string, args *Args) (*pgconn.Result, error) {
	j := p.job(ctx, sql, args)
	j.pinned = true
	return p.run(j)
}

// row runs a job and returns the fields of the row that it must result in.
func (p *pool) row(j *job) (*Fields, error) {
	result, err := p.run(j)
	if err != nil {
		return nil, err
	}
	if len(result.Rows) != 1 {
		return nil, errForm
	}
	return NewFields(result.Rows[0]), nil
}

// run passes a job to a connection, and waits for it until its context ends.
func (p *pool) run(j *job) (*pgconn.Result, error) {
	j.done = make(chan struct{})
	select {
	case p.jobs <- j:
	case <-j.ctx.Done():
		return nil, j.ctx.Err()
	case <-p.stopping.Done():
		return nil, p.stopping.Err()
	}
	select {
	case <-j.done:
		return j.result, j.err
	case <-j.ctx.Done():
		return nil, j.ctx.Err()
	}
}

// keep executes jobs over one connection, and connects when there is none.
func (p *pool) keep() {
	var conn *pgconn.PgConn
	defer func() { closeNow(conn) }()
	for {
		select {
		case <-p.stopping.Done():
			return
		case j := <-p.jobs:
			if conn != nil && !conn.IsClosed() && stale(conn) {
				closeNow(conn)
			}
			if conn == nil || conn.IsClosed() {
				conn, j.err = p.connect()
			}
			if j.err == nil {
				p.do(conn, j)
			}
			close(j.done)
		}
	}
}

// stale reports whether an idle connection cannot be used again: the server has closed it, or has
// sent the message that precedes a close. Otherwise the first statement after a restart of the
// server would fail, because an idle connection is not read.
func stale(conn *pgconn.PgConn) bool {
	c := conn.Conn()
	if secured, ok := c.(*tls.Conn); ok {
		c = secured.NetConn()
	}
	socket, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return true
	}
	silent := false
	err = raw.Control(func(fd uintptr) {
		_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		silent = errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR)
	})
	return err != nil || !silent
}

const (
	partingTimeout = 100 * time.Millisecond // for the last message on a connection
	cancelTimeout  = 5 * time.Second        // for a request to cancel: three round trips with TLS
)

// closeNow closes a connection without waiting for the server.
func closeNow(conn *pgconn.PgConn) {
	if conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), partingTimeout)
	defer cancel()
	_ = conn.Close(ctx) // it may be broken
}

// abandon closes a connection and makes the server cancel the statement on it, which would
// otherwise keep its locks. The next job does not wait for that; closing the pool does.
func (p *pool) abandon(conn *pgconn.PgConn) {
	closeNow(conn)
	p.running.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cancelTimeout)
		defer cancel()
		_ = conn.CancelRequest(ctx) // the server may not be reachable
	})
}

func (p *pool) connect() (*pgconn.PgConn, error) {
	conn, err := pgconn.ConnectConfig(p.stopping, p.cfg)
	if err != nil {
		return nil, &connectError{withAdvice(err)}
	}
	text := conn.ParameterStatus("server_version")
	major, err := strconv.Atoi(text[:len(text)-len(strings.TrimLeft(text, "0123456789"))])
	if err == nil && major < versionMin {
		closeNow(conn)
		return nil, &store.MisconfiguredError{Cause: store.WrongProtocol,
			Err: fmt.Errorf("PostgreSQL %s is too old: name one of version %d or later in POSTGRES_URL", text, versionMin)}
	}
	return conn, nil
}

// ownCodes are the SQLSTATEs with which the deciding functions fail. With another code the OID
// may be that of another object, or of none: unlike a name, an OID changes when a function is
// created again.
var ownCodes = []string{codeIsolation, codeSerialization, codeDeadlock, codeLocked, codeCanceled}

// do executes a job. If it was certainly rolled back, and may succeed when repeated, it is
// executed once more.
func (p *pool) do(conn *pgconn.PgConn, j *job) {
	ctx, cancel := context.WithTimeout(p.stopping, j.silent)
	defer cancel()
	for range 2 {
		oid := uint32(0)
		if j.function != nil && !p.explicit.Load() {
			oid = j.function.Load()
		}
		switch {
		case j.script:
			_, j.err = conn.Exec(ctx, j.sql).ReadAll()
		case oid != 0:
			j.result, j.err = p.called(ctx, conn, oid, j.params)
		case p.explicit.Load() || j.limit > 0 || j.pinned:
			j.result, j.err = surrounded(ctx, conn, j, p.explicit.Load())
		default:
			j.result = conn.ExecParams(ctx, j.sql, j.params, j.types, binaryFormat, binaryFormat).Read()
			j.err = j.result.Err
		}
		switch code := codeOf(j.err); {
		case code == codeIsolation:
			p.explicit.Store(true)
		case oid != 0 && code != "" && !slices.Contains(ownCodes, code) && !conn.IsClosed() && j.ctx.Err() == nil:
			j.function.CompareAndSwap(oid, 0) // it may be found by its name
		case code != codeSerialization && code != codeDeadlock || j.ctx.Err() != nil:
			if j.err != nil && j.script && !conn.IsClosed() {
				_, _ = conn.Exec(ctx, "ROLLBACK").ReadAll() // the first error is reported
			}
			return
		}
	}
}

// called calls a function by the message FunctionCall: no statement is parsed, planned or
// executed, and the session gets no state.
func (p *pool) called(ctx context.Context, conn *pgconn.PgConn, oid uint32, params [][]byte) (result *pgconn.Result,
	err error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Conn().SetDeadline(time.Unix(1, 0)) })
	defer func() {
		switch {
		case !stop():
			p.abandon(conn)
		case result == nil && codeOf(err) == "":
			closeNow(conn)
		}
	}()
	conn.Frontend().Send(&pgproto3.FunctionCall{Function: oid, ArgFormatCodes: []uint16{1}, Arguments: params,
		ResultFormatCode: 1})
	if err := conn.Frontend().Flush(); err != nil {
		return nil, err
	}
	for {
		message, received := conn.ReceiveMessage(context.Background())
		if received != nil {
			return nil, cmp.Or(ctx.Err(), received)
		}
		switch m := message.(type) {
		case *pgproto3.FunctionCallResponse:
			result = &pgconn.Result{Rows: [][][]byte{{bytes.Clone(m.Result)}}}
		case *pgproto3.ErrorResponse:
			err = pgconn.ErrorResponseToPgError(m)
		case *pgproto3.ReadyForQuery:
			if result == nil && err == nil {
				err = errForm
			}
			return result, err
		}
	}
}

// limitSQL sets the statement timeout for the following statements of the transaction, unless the
// role's own timeout is lower. A function cannot do this for itself, because its statement has
// already begun.
const limitSQL = `SELECT pg_catalog.set_config('statement_timeout',
CASE WHEN t::interval > '0' AND t::interval < '%[1]dms' THEN t ELSE '%[1]d' END, true) FROM pg_catalog.current_setting('statement_timeout') t`

// pinSQL sets the search_path for the following statements of the transaction. Functions and
// operators that another role has created, as in schema public, could otherwise be what a name or
// a sign means.
const pinSQL = "SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true)"

// surrounded executes a job with what it needs before and after it, in one round trip: statements
// up to a Sync are one transaction, which a pooler does not split.
func surrounded(ctx context.Context, conn *pgconn.PgConn, j *job, explicit bool) (result *pgconn.Result, err error) {
	var before, after []string
	if explicit {
		before, after = []string{"BEGIN ISOLATION LEVEL READ COMMITTED"}, []string{"COMMIT"}
	}
	if j.pinned {
		before = append(before, pinSQL)
	}
	if j.limit > 0 {
		before = append(before, fmt.Sprintf(limitSQL, max(1, j.limit.Milliseconds())))
	}
	pipe := conn.StartPipeline(ctx)
	for _, sql := range before {
		pipe.SendQueryParams(sql, nil, nil, nil, nil)
	}
	pipe.SendQueryParams(j.sql, j.params, j.types, binaryFormat, binaryFormat)
	for _, sql := range after {
		pipe.SendQueryParams(sql, nil, nil, nil, nil)
	}
	err = pipe.Sync()
	for i := 0; err == nil && i <= len(before)+len(after); i++ {
		var next any
		if next, err = pipe.GetResults(); err != nil {
			break
		}
		reader, ok := next.(*pgconn.ResultReader)
		if !ok {
			err = errForm
			break
		}
		r := reader.Read()
		if err = r.Err; i == len(before) {
			result = r
		}
	}
	if closeErr := pipe.Close(); err == nil { // of the commit
		err = closeErr
	}
	if err != nil && explicit && !conn.IsClosed() {
		_, _ = conn.Exec(ctx, "ROLLBACK").ReadAll() // the first error is reported
	}
	return result, err
}
