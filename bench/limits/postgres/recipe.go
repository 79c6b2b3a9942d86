package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"weir/bench/lab/rig"
)

const (
	recipeConnections = 12              // of each instance
	recipeWait        = 2 * time.Second // for a connection; then 500
)

// A recipe is a common way to admit one request per user and period with a table of
// PostgreSQL, by the clock of the instance.
type recipe struct {
	name, schema string
	admit        func(ctx context.Context, c *pgconn.PgConn, a ask) (bool, error)
}

// An ask asks whether a user may pass at now with one permit per period; both are in µs.
type ask struct {
	user        string
	now, period int64
}

// recipes are the compared ways.
var recipes = []recipe{
	// SELECT … FOR UPDATE NOWAIT, then UPDATE or INSERT.
	{"nowait", `CREATE TABLE IF NOT EXISTS limits (name text PRIMARY KEY, last timestamptz NOT NULL)`, nowait},
	// One INSERT … ON CONFLICT … DO UPDATE … WHERE, which returns a row or not.
	{"upsert", `CREATE TABLE IF NOT EXISTS limits (name text PRIMARY KEY, last timestamptz NOT NULL)`, upsert},
	// INSERT of a tstzrange under a GiST exclusion constraint.
	{"range", `CREATE EXTENSION IF NOT EXISTS btree_gist; CREATE TABLE IF NOT EXISTS limits (name text, span tstzrange, EXCLUDE USING gist (name WITH =, span WITH &&))`, reserve},
}

func recipeNamed(name string) *recipe {
	if i := slices.IndexFunc(recipes, func(r recipe) bool { return r.name == name }); i >= 0 {
		return &recipes[i]
	}
	return nil
}

const instant = `to_timestamp($2::float8 / 1e6)`

// nowait refuses if the row is locked, because another request is being admitted.
func nowait(ctx context.Context, c *pgconn.PgConn, a ask) (bool, error) {
	if _, err := run(ctx, c, "BEGIN"); err != nil {
		return false, err
	}
	rows, err := run(ctx, c, `SELECT last <= to_timestamp($2::float8 / 1e6) FROM limits WHERE name = $1 FOR UPDATE NOWAIT`, a.user, micros(a.now-a.period))
	admitted := err == nil && (len(rows) == 0 || rows[0] == "t")
	switch {
	case admitted && len(rows) == 0:
		_, err = run(ctx, c, `INSERT INTO limits VALUES ($1, `+instant+`)`, a.user, micros(a.now))
	case admitted:
		_, err = run(ctx, c, `UPDATE limits SET last = `+instant+` WHERE name = $1`, a.user, micros(a.now))
	}
	end := "COMMIT"
	if err != nil {
		end = "ROLLBACK"
	}
	_, ended := run(ctx, c, end)
	return refused(admitted && err == nil, errors.Join(err, ended))
}

func upsert(ctx context.Context, c *pgconn.PgConn, a ask) (bool, error) {
	rows, err := run(ctx, c, `INSERT INTO limits AS l VALUES ($1, `+instant+`) ON CONFLICT (name) DO UPDATE SET last = excluded.last
		WHERE l.last <= to_timestamp($3::float8 / 1e6) RETURNING true`, a.user, micros(a.now), micros(a.now-a.period))
	return refused(len(rows) == 1, err)
}

func reserve(ctx context.Context, c *pgconn.PgConn, a ask) (bool, error) {
	_, err := run(ctx, c, `INSERT INTO limits VALUES ($1, tstzrange(`+instant+`, to_timestamp($3::float8 / 1e6)))`,
		a.user, micros(a.now), micros(a.now+a.period))
	return refused(err == nil, err)
}

// refused turns the errors that mean a refusal into an answer.
func refused(admitted bool, err error) (bool, error) {
	switch codeOf(err) {
	case "55P03", "23505", "23P01": // NOWAIT met a lock; a unique or an exclusion constraint is violated
		return false, nil
	}
	return admitted, err
}

func codeOf(err error) string {
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok {
		return answer.Code
	}
	return ""
}

func micros(n int64) string { return strconv.FormatInt(n, 10) }

// run runs a statement, with parameters as text, and returns the first value of each row.
func run(ctx context.Context, c *pgconn.PgConn, sql string, params ...string) (values []string, err error) {
	raw := make([][]byte, len(params))
	for i, p := range params {
		raw[i] = []byte(p)
	}
	r := c.ExecParams(ctx, sql, raw, nil, nil, nil).Read()
	for _, row := range r.Rows {
		values = append(values, string(row[0]))
	}
	return values, r.Err
}

// LimiterServerName is the command of bench that runs a [LimiterServer].
const LimiterServerName = "postgres-recipe"

// LimiterServer answers requests by one of the recipes until the experiment ends. args are the
// recipe, the address, the URL of PostgreSQL, the number of connections to it, the period, and the
// offset of the clock.
func LimiterServer(l *rig.Lab, args []string) {
	if len(args) != 6 || recipeNamed(args[0]) == nil {
		rig.UsageError("needs a recipe, an address, a URL, connections, a period and a skew")
	}
	s := &instance{way: recipeNamed(args[0]), url: args[2], period: rig.Must(time.ParseDuration(args[4])),
		skew: rig.Must(time.ParseDuration(args[5])), idle: make(chan *pgconn.PgConn, rig.Must(strconv.Atoi(args[3])))}
	for range cap(s.idle) {
		s.idle <- rig.Must(pgconn.Connect(l.Ctx, s.url))
	}
	rig.Check(rig.Serve(l.Ctx, args[1], s))
}

// An instance is an instance of a recipe service.
//
// Safe for concurrent use: connections are handed over by a channel, the rest is immutable.
type instance struct {
	way          *recipe
	url          string
	period, skew time.Duration
	idle         chan *pgconn.PgConn
}

// ServeHTTP answers 200 or 429 for the user named by the last element of the path, and 500 on
// errors.
func (s *instance) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	admitted, err := s.decide(r.Context(), path.Base(r.URL.Path))
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case !admitted:
		http.Error(w, "too many requests", http.StatusTooManyRequests)
	default:
		fmt.Fprintln(w, "ok")
	}
}

func (s *instance) decide(ctx context.Context, user string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, recipeWait)
	defer cancel()
	var c *pgconn.PgConn
	select {
	case c = <-s.idle:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	defer func() { s.idle <- c }()
	if c.IsClosed() { // closed by an interrupted statement
		again, err := pgconn.Connect(ctx, s.url)
		if err != nil {
			return false, err
		}
		c = again
	}
	return s.way.admit(context.WithoutCancel(ctx), c,
		ask{user, time.Now().Add(s.skew).UnixMicro(), s.period.Microseconds()})
}
