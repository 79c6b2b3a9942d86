package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"weir/proxy/store"
)

// A ClientConfig configures a Client's connections.
type ClientConfig struct {
	URL         string // in the form of [Config].URL
	Setting     string // name of the setting of the URL, for errors: DEFER_URL
	Connections int
	Schema      string // schema of the functions
	// Silence is how long an answer may take before the connection is closed; 1 s. The server ends
	// the statement slightly earlier.
	Silence time.Duration
}

// A Client calls functions in PostgreSQL for users other than a store of limits, in one round
// trip each. It connects when it is used, and again after an error.
//
// Safe for concurrent use: the pool is.
type Client struct {
	cfg  ClientConfig
	pool *pool
}

// NewClient returns a client. An error is about the configuration and never contains the password.
func NewClient(cfg ClientConfig) (*Client, error) {
	silence := cmp.Or(cfg.Silence, silenceMax)
	parsed, err := (&Config{URL: cfg.URL, silence: silence}).parse()
	if err != nil {
		return nil, err
	}
	return &Client{cfg: cfg, pool: newPool(parsed, cfg.Connections, silence)}, nil
}

// Close closes all connections, and cancels what is in progress.
func (c *Client) Close() { c.pool.close() }

// Call calls a function and returns the columns of the first row. Errors contain advice; see
// [Classify]. If ctx has a deadline, the connection is closed soon after it. A call that was
// certainly rolled back may be repeated.
func (c *Client) Call(ctx context.Context, function string, args *Args) ([][]byte, error) {
	j := c.pool.job(ctx, "SELECT * FROM "+quoted(c.cfg.Schema)+"."+function+"("+places(len(args.values))+")", args)
	if deadline, ok := ctx.Deadline(); ok {
		j.silent = min(j.silent, time.Until(deadline))
	}
	j.limit = j.silent * 9 / 10
	result, err := c.pool.run(j)
	if err != nil {
		return nil, c.withAdvice(err)
	}
	if len(result.Rows) == 0 {
		return nil, errForm
	}
	return result.Rows[0], nil
}

// places returns the placeholders of the given number of arguments in a statement.
func places(arguments int) string {
	var dst strings.Builder
	for i := range arguments {
		if i > 0 {
			dst.WriteByte(',')
		}
		fmt.Fprintf(&dst, "$%d", i+1)
	}
	return dst.String()
}

// untrusted returns the error of a schema that another role could misuse.
func untrusted(err error) error { return &store.MisconfiguredError{Cause: store.Untrusted, Err: err} }

// Migrate brings functions and tables to the version of m, and returns the version that they had,
// or 0 if there were none.
func (c *Client) Migrate(ctx context.Context, m *Migration) (from int32, err error) {
	if from, err = m.run(ctx, c.pool, false); err != nil {
		err = &renamedError{err, c.cfg.Setting} // it already contains advice
	}
	return from, err
}

// A renamedError is an error that names the settings of a client.
type renamedError struct {
	error
	setting string
}

func (e *renamedError) Error() string {
	return strings.NewReplacer("POSTGRES_URL", e.setting, "raise statement_timeout of the role, or POSTGRES_TIMEOUT",
		"find out why the server is slow",
		"raise POSTGRES_TIMEOUT, or end", "end").Replace(e.error.Error())
}

func (e *renamedError) Unwrap() error { return e.error }

// withAdvice adds advice to an error.
func (c *Client) withAdvice(err error) error {
	if err == nil {
		return nil
	}
	return &renamedError{withAdvice(err), c.cfg.Setting}
}

// HadNoEffect reports whether the statement that returned err has certainly had no effect.
func HadNoEffect(err error) bool {
	if _, unconnected := errors.AsType[*connectError](err); unconnected {
		return true
	}
	code := codeOf(err) // 08: of a pooler that has lost the server; 57P: the server shuts down
	return code != "" && !strings.HasPrefix(code, "08") && !strings.HasPrefix(code, "57P")
}

// TimedOut reports whether err is that of a statement that took the server too long. Such a
// statement certainly had no effect.
func TimedOut(err error) bool { return codeOf(err) == codeCanceled }

// ViolatesIndex reports whether err is that of a value that a unique index already contains.
func ViolatesIndex(err error, index string) bool {
	answer, ok := errors.AsType[*pgconn.PgError](err)
	return ok && answer.Code == "23505" && answer.ConstraintName == index
}

// A Migration creates tables and functions, or extends them.
type Migration struct {
	Schema   string
	Function string // returns the version
	Version  int32  // required by the program
	Script   string
	Manual   bool // an operator runs the script
}

// run runs the script unless the version is present, or if lacking is true. It returns the
// version that was present before.
func (m *Migration) run(ctx context.Context, p *pool, lacking bool) (version int32, err error) {
	version, err = m.version(ctx, p)
	switch {
	case err != nil:
		return 0, fmt.Errorf("look at schema %s: %w", m.Schema, withAdvice(err))
	case version == m.Version && (!lacking || m.Manual):
		return version, nil
	case version > m.Version:
		return version, &store.MisconfiguredError{Cause: store.NoSchema, Err: fmt.Errorf(
			"schema %s has version %d, and this program knows %d: use a newer program, or another POSTGRES_SCHEMA", m.Schema,
			version, m.Version)}
	case m.Manual:
		found := "is missing"
		if version > 0 {
			found = fmt.Sprintf("has version %d, and this program needs %d", version, m.Version)
		}
		return version, &store.MisconfiguredError{Cause: store.NoSchema, Err: fmt.Errorf(
			"schema %s %s: run the SQL that proxy -postgres-schema prints, or set POSTGRES_MIGRATE=true", m.Schema, found)}
	}
	script := owned(m.Schema, true, []string{m.Script})
	if _, err := p.run(&job{ctx: ctx, silent: migrationTimeout, script: true, sql: script}); err != nil {
		if codeOf(err) == codeUntrusted {
			return version, untrusted(fmt.Errorf("create schema %s: %w", m.Schema, err))
		}
		if codeOf(err) == codeNoRight {
			return version, &store.MisconfiguredError{Cause: store.Unauthorized, Err: fmt.Errorf(
				"create schema %s: %w; grant CREATE on the database to the user of POSTGRES_URL, or have another user run the "+
					"SQL that proxy -postgres-schema prints", m.Schema, err)}
		}
		return version, fmt.Errorf("create schema %s: %w", m.Schema, withAdvice(err))
	}
	return version, nil
}

// untrustedSQL finds a role that owns schema $1 or a function in it, and is neither that of the
// connection nor a superuser nor $2.
const untrustedSQL = `SELECT coalesce((SELECT r.rolname FROM (
    SELECT n.nspowner AS owner FROM pg_namespace n WHERE n.nspname = $1
    UNION ALL SELECT p.proowner FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = $1) o
  JOIN pg_roles r ON r.oid = o.owner WHERE NOT r.rolsuper AND r.rolname NOT IN (current_user, $2) LIMIT 1), '')`

// version returns the version that is present, or 0. It calls no function before it knows that
// the schema is not another role's, whose code would run with the rights of the connection.
func (m *Migration) version(ctx context.Context, p *pool) (int32, error) {
	result, err := p.query(ctx, untrustedSQL, new(Args).Text(m.Schema).Text(ownerRole))
	if err != nil {
		return 0, err
	}
	if role := result.Rows[0][0]; len(role) > 0 {
		return 0, untrusted(
			fmt.Errorf("it, or a function in it, belongs to role %s, which is neither the user of POSTGRES_URL "+
				"nor %s nor a superuser; if that role is an administrator's, run the SQL that proxy -postgres-schema "+
				"prints as that role; "+
				"otherwise name another schema in POSTGRES_SCHEMA", role, ownerRole))
	}
	f, err := p.row(p.job(ctx, "SELECT "+quoted(m.Schema)+"."+m.Function+"()", nil))
	if code := codeOf(err); code == codeNoFunction || code == codeNoSchema {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	version := f.Int4()
	return version, f.Err
}
