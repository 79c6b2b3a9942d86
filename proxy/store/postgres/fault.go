package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"weir/proxy/store"
)

// SQLSTATEs with a special treatment.
const (
	codeIsolation     = "WR001" // of lock_1: the isolation level is not READ COMMITTED
	codeUntrusted     = "WR003" // of the script of owned: something belongs to another role
	codeSerialization = "40001"
	codeDeadlock      = "40P01"
	codeLocked        = "55P03"
	codeCanceled      = "57014"
	codeNoFunction    = "42883"
	codeNoSchema      = "3F000"
	codeNoTable       = "42P01"
	codeNoRight       = "42501"
)

// codeOf returns the SQLSTATE of an error that the server has reported, or "".
func codeOf(err error) string {
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok {
		return answer.Code
	}
	return ""
}

// refusedTLS is the library's error for a server without TLS.
const refusedTLS = "server refused TLS connection"

// A connectError gives the reason for a failed connection in one line. The library has a line for
// each attempt: to each address, with TLS and without.
type connectError struct{ err error }

func (e *connectError) Error() string {
	text := "connect to PostgreSQL:"
	for line := range strings.Lines(e.err.Error()) {
		line = strings.Join(strings.Fields(line), " ")
		if strings.Contains(text, line) {
			continue
		}
		if !strings.HasSuffix(text, ":") {
			text += ";"
		}
		text += " " + line
	}
	return text
}

func (e *connectError) Unwrap() error { return e.err }

// A meaning is the class of the errors whose SQLSTATEs have a prefix.
type meaning struct {
	begins string
	class  store.ErrorClass
	cause  store.MisconfigCause // only an operator can repair it, unless 0
	remedy string
}

// meanings are searched in order.
var meanings = []meaning{
	{"28P01", store.OutageFault, store.Unauthenticated, "correct user and password in POSTGRES_URL"},
	{"28", store.OutageFault, store.Unauthenticated,
		"allow the user of POSTGRES_URL in pg_hba.conf, or set the sslmode that it requires"},
	{"3D000", store.OutageFault, store.NoDatabase, "create the database that POSTGRES_URL names"},
	{codeNoRight, store.OutageFault, store.Unauthorized,
		"grant the user of POSTGRES_URL what proxy -postgres-schema lists"},
	{codeNoFunction, store.OutageFault, store.NoSchema,
		"run the SQL that proxy -postgres-schema prints, or set POSTGRES_MIGRATE=true"},
	{codeNoSchema, store.OutageFault, store.NoSchema,
		"run the SQL that proxy -postgres-schema prints, or set POSTGRES_MIGRATE=true"},
	{codeNoTable, store.OutageFault, store.NoSchema,
		"run the SQL that proxy -postgres-schema prints, or set POSTGRES_MIGRATE=true"},
	{"42704", store.OutageFault, store.WrongProtocol, "correct the parameters of POSTGRES_URL"},
	{"22023", store.OutageFault, store.WrongProtocol, "correct the parameters of POSTGRES_URL"},
	{"53100", store.OutageFault, 0, "make room on the server's disk"},
	{"53300", store.OutageFault, 0, "raise max_connections, lower POSTGRES_CONNECTIONS, or use a pooler"},
	{"53", store.OutageFault, 0, "give the server more of the resource that it lacks"},
	{"25006", store.OutageFault, 0, "name the primary in POSTGRES_URL, or all servers separated by commas"},
	{"0A000", store.OutageFault, 0, "name the primary in POSTGRES_URL: a standby has no unlogged tables"},
	{"57P", store.OutageFault, 0, "wait until the server has started again"},
	{"08", store.OutageFault, 0, "check the server, and the pooler in front of it"},
	{"XX", store.OutageFault, 0, "see the server's log"},
	{"58", store.OutageFault, 0, "see the server's log"},
	{codeCanceled, store.TimeoutFault, 0, "raise statement_timeout of the role, or POSTGRES_TIMEOUT"},
	{codeLocked, store.TimeoutFault, 0,
		"raise POSTGRES_TIMEOUT, or end the transaction that holds locks in the schema of POSTGRES_SCHEMA"},
	{"40", store.TimeoutFault, 0, "set default_transaction_isolation of the role to read committed"},
}

// meaningOf returns the meaning of a SQLSTATE; ok is false if the error does not concern
// other calls.
func meaningOf(code string) (m meaning, ok bool) {
	for _, m := range meanings {
		if strings.HasPrefix(code, m.begins) {
			return m, true
		}
	}
	return meaning{}, false
}

// withAdvice adds advice to an error, once.
func withAdvice(err error) error {
	if _, unconnected := errors.AsType[*connectError](err); unconnected {
		return err
	}
	if code := codeOf(err); code != "" {
		if m, ok := meaningOf(code); ok {
			return fmt.Errorf("%w; %s", err, m.remedy)
		}
	}
	return err
}

// Classify classifies an error of another method. A cancelled call is not a fault.
func (b *backend) Classify(err error) store.Fault {
	if errors.Is(err, context.Canceled) {
		return store.Fault{}
	}
	return Classify(err)
}

// Classify classifies an error of a [Client].
func Classify(err error) store.Fault {
	if err == nil {
		return store.Fault{}
	}
	if permanent, ok := errors.AsType[*store.MisconfiguredError](err); ok {
		return store.Fault{Class: store.OutageFault, Code: codeOf(err), Permanent: permanent}
	}
	if errors.Is(err, errForeign) || errors.Is(err, errForm) {
		return store.Fault{Class: store.ItemFault}
	}
	_, unconnected := errors.AsType[*connectError](err)
	if code := codeOf(err); code != "" {
		m, ok := meaningOf(code)
		switch {
		case !ok && unconnected:
			return store.Fault{Class: store.OutageFault, Code: code}
		case !ok:
			return store.Fault{Class: store.ItemFault, Code: code}
		}
		f := store.Fault{Class: m.class, Code: code}
		if m.cause != 0 {
			f.Permanent = &store.MisconfiguredError{Cause: m.cause, Err: err}
		}
		return f
	}
	switch {
	case unconnected && strings.Contains(err.Error(), refusedTLS):
		return store.Fault{Class: store.OutageFault, Permanent: &store.MisconfiguredError{Cause: store.WrongProtocol,
			Err: fmt.Errorf("%w; set ssl=on at the server, or sslmode=prefer in POSTGRES_URL", err)}}
	case !unconnected && errors.Is(err, context.DeadlineExceeded):
		return store.Fault{Class: store.TimeoutFault}
	}
	return store.Fault{Class: store.OutageFault}
}
