// Package journal is a program's log: readable lines or JSON, on standard output and,
// with LOG_FILE, in a file that is rotated.
package journal

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/DeRuina/timberjack"

	"weir/internal/program/ownfile"
)

const (
	// FileMegabytes is the size at which the file is rotated.
	FileMegabytes = 10
	// filesKept is the number of rotated files that are kept.
	filesKept = 10
)

// Config is the settings of a log.
type Config struct {
	Level  string // LOG_LEVEL: debug, info, warn or error
	Format string // LOG_FORMAT: text or json
	File   string // LOG_FILE; empty for none
}

// A Log is the log of a program.
//
// Safe for concurrent use, except that Reopen and Close must not be called concurrently.
type Log struct {
	handler slog.Handler
	out     *tee
	name    string         // LOG_FILE
	file    io.WriteCloser // nil without one
}

// Open opens the log. Every line goes to standard output. If the file cannot be written,
// Open returns the error together with a Log that works without the file.
func Open(c Config, stdout io.Writer) (*Log, error) {
	out := &tee{writers: []io.Writer{stdout}}
	j := &Log{handler: NewHandler(c.Format, parseLevel(c.Level), out), out: out, name: c.File}
	if c.File == "" {
		return j, nil
	}
	out.alone = NewHandler(c.Format, slog.LevelError, stdout).WithAttrs([]slog.Attr{slog.String(ComponentKey, "Log")})
	if err := j.Reopen(); err != nil {
		return j, cause(err)
	}
	return j, nil
}

// Logger returns a logger that writes to j.
func (l *Log) Logger() *slog.Logger { return slog.New(l.handler) }

// Dropped returns how many lines could not be written to standard output, as when its reader has
// gone, and to the file.
func (l *Log) Dropped() (stdout, file uint64) {
	return l.out.dropped[0].Load(), l.out.dropped[1].Load()
}

// Reopen opens the file by its name again, which creates a new one after logrotate has
// renamed it. If that fails, the log continues in the previous file. The file is not rotated in
// a folder in which another user could put a symbolic link in the place of the new file.
func (l *Log) Reopen() error {
	// The rotating writer opens the file when it writes the first line. Opening it here
	// reports an error now.
	f, err := ownfile.Open(l.name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	file := io.WriteCloser(f)
	if ownfile.IsPrivateDir(filepath.Dir(l.name)) {
		_ = f.Close() // nothing was written
		file = &timberjack.Logger{Filename: l.name, MaxSize: FileMegabytes, MaxBackups: filesKept}
	}
	l.out.setFile(file)
	l.Close()
	l.file = file
	return nil
}

// FatalLogger returns the logger for errors that end the program. It writes to the file, and to
// stderr if lines are JSON.
func (l *Log) FatalLogger(format string, stderr io.Writer) *slog.Logger {
	out := new(tee)
	if format == "json" {
		out.writers = append(out.writers, stderr)
	}
	if l.file != nil {
		out.writers = append(out.writers, l.file)
	}
	return slog.New(NewHandler(format, slog.LevelError, out))
}

// Close closes the file.
func (l *Log) Close() {
	if l.file != nil {
		_ = l.file.Close() // nothing is buffered
	}
}

// cause returns the error of the system call, without the operation and the path.
func cause(err error) error {
	if p, ok := err.(*os.PathError); ok {
		return p.Err
	}
	return err
}
