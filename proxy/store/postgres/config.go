package postgres

import (
	"cmp"
	"errors"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"weir/internal/data/strict"
	"weir/proxy/store/lane"
)

const (
	connectionsDefault = 2
	connectionsMax     = 64
	schemaDefault      = "weir"
	// silenceMax is how long the server may take to answer before its connection is closed, and
	// bounds the wait for a new connection.
	silenceMax = time.Second
)

// A Config configures a store in PostgreSQL. Zero fields mean the defaults.
type Config struct {
	// Config is that of the lanes, without Name, Title and Locking. Half of its Timeout is how
	// long a batch waits for a lock.
	lane.Config

	// URL is postgres://user:password@host:port/database?sslmode=…, with several hosts
	// separated by commas if there are standbys.
	URL string
	// Connections is the number of connections for decisions; 2. There is one more for documents.
	Connections int
	// Schema is the schema of the tables and functions; weir.
	Schema string
	// KeyPrefix is the prefix of all names, for installations that share a schema.
	KeyPrefix string
	// Durable creates logged tables for the states of keys, which survive a crash of the server.
	// It only matters when the tables are created.
	Durable bool
	// Manual says that an operator creates tables and functions: see [Schema].
	Manual bool

	clock   func() int64  // for tests, in µs; nil: the server's
	silence time.Duration // for tests; otherwise silenceMax
}

func (cfg Config) withDefaults() Config {
	cfg.Config = cfg.Config.WithDefaults()
	cfg.Name, cfg.Title, cfg.Locking = "postgres", "PostgreSQL", true
	cfg.Connections = cmp.Or(cfg.Connections, connectionsDefault)
	cfg.Schema = cmp.Or(cfg.Schema, schemaDefault)
	cfg.silence = cmp.Or(cfg.silence, silenceMax)
	return cfg
}

// CheckSchema returns an error if the name of a schema is invalid.
func CheckSchema(name string) error {
	if !schemaForm.MatchString(name) || strings.HasPrefix(name, "pg_") {
		return errors.New("must be at most 63 lower-case letters, digits and _, beginning with neither a digit nor pg_")
	}
	if name == "public" || name == "information_schema" {
		return errors.New("must be a schema of Weir's own")
	}
	return nil
}

var schemaForm = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// Validate returns strict.Faults, or nil. Faults never contain the password.
func (cfg Config) Validate() error {
	cfg = cfg.withDefaults()
	var f strict.Reader
	_, err := cfg.parse()
	f.Check(err != nil, "URL", "%v; allowed: "+urlForm, err)
	f.Check(cfg.Connections < 1 || cfg.Connections > connectionsMax, "Connections", "must be 1 to %d, is %d",
		connectionsMax, cfg.Connections)
	err = CheckSchema(cfg.Schema)
	f.Check(err != nil, "Schema", "%v", err)
	f.Check(strings.ContainsRune(cfg.KeyPrefix, 0), "KeyPrefix", "must not contain a zero byte")
	cfg.Config.Check(&f)
	return f.Err()
}

// urlForm is an example of a URL; unescaped is the advice if the password contains characters
// that end it.
const (
	urlForm   = "postgres://user:password@host:port/database"
	unescaped = "characters of user and password other than letters, digits and -._~ are written as %XX"
)

// parse parses the URL. Its error does not quote the URL, which may contain a password.
func (cfg *Config) parse() (*pgconn.Config, error) {
	if !strings.HasPrefix(cfg.URL, "postgres://") && !strings.HasPrefix(cfg.URL, "postgresql://") {
		return nil, errors.New("does not begin with postgres://")
	}
	parsed, err := pgconn.ParseConfig(cfg.URL)
	if err != nil {
		_, cause, _ := strings.Cut(err.Error(), "`: ") // the part before it is the URL
		if strings.Contains(cause, "://") {
			cause = unescaped
		}
		return nil, errors.New("cannot be parsed: " + cause)
	}
	u, err := url.Parse(cfg.URL)
	address, _, _ := strings.Cut(cfg.URL, "?")
	switch { // the user is never a default: in a URL without a user, the host may be a part of a password
	case err != nil || u.User.Username() == "" && !u.Query().Has("user"):
		return nil, errors.New("names no user")
	case strings.Count(address, "@") > 1: // errors would show the rest of a password as a host
		return nil, errors.New("has more than one @: " + unescaped)
	case parsed.Database == "":
		return nil, errors.New("names no database")
	}
	if strings.Contains(authority(cfg.URL), ",") && !strings.Contains(cfg.URL, "target_session_attrs=") {
		parsed.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	if parsed.RuntimeParams["application_name"] == "" {
		parsed.RuntimeParams["application_name"] = "weir"
	}
	parsed.ConnectTimeout = cfg.silence
	return parsed, nil
}

// authority returns the part of a URL that names hosts.
func authority(text string) string {
	_, rest, _ := strings.Cut(text, "://")
	rest, _, _ = strings.Cut(rest, "/")
	return rest[strings.LastIndexByte(rest, '@')+1:]
}
