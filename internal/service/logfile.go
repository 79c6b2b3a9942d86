package service

import (
	"io"
	"log/slog"
	"os"

	"github.com/DeRuina/timberjack"
)

const (
	// logFileMegabytes is the size at which LOG_FILE is rotated.
	logFileMegabytes = 10
	// logFilesKept bounds the rotated files: the oldest beyond it goes.
	logFilesKept = 10
)

// logs is where a program's log goes.
//
// Safe for concurrent use: out has a mutex; reopen is called by one goroutine at a
// time, and close after it.
type logs struct {
	handler slog.Handler
	out     *tee
	name    string         // LOG_FILE
	file    io.WriteCloser // nil without LOG_FILE
}

// openLogs sets up the log as the settings say. stdout always gets every line.
// When LOG_FILE cannot be written there are logs all the same, without it.
func openLogs(c *common, stdout io.Writer) (*logs, error) {
	out := &tee{writers: []io.Writer{stdout}}
	l := &logs{handler: newHandler(c.logFormat, parseLevel(c.logLevel), out), out: out, name: c.logFile}
	if c.logFile == "" {
		return l, nil
	}
	out.alone = newHandler(c.logFormat, slog.LevelError, stdout).WithAttrs([]slog.Attr{slog.String(componentKey, "Log")})
	if err := l.reopen(); err != nil {
		return l, &SettingError{
			Name: "LOG_FILE", Value: c.logFile, Problem: "cannot be written: " + cause(err), Allowed: "a file in a directory that exists",
		}
	}
	return l, nil
}

// reopen has the log go on in the file that has the name now: after logrotate has
// renamed the one before, that is a new one. With an error the log goes on as
// before.
func (l *logs) reopen() error {
	// The rotating writer opens the file with its first line and would then
	// fail line after line: find out now.
	f, err := os.OpenFile(l.name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return err
	}
	file := &timberjack.Logger{Filename: l.name, MaxSize: logFileMegabytes, MaxBackups: logFilesKept}
	l.out.setFile(file)
	l.close()
	l.file = file
	return nil
}

// last returns the handler for what ends the program: it goes to LOG_FILE, and to
// stderr when lines are JSON.
func (l *logs) last(format string, stderr io.Writer) slog.Handler {
	out := new(tee)
	if format == "json" {
		out.writers = append(out.writers, stderr)
	}
	if l.file != nil {
		out.writers = append(out.writers, l.file)
	}
	return newHandler(format, slog.LevelError, out)
}

// close closes the file.
func (l *logs) close() {
	if l.file != nil {
		_ = l.file.Close() // nothing is buffered
	}
}

// cause is what the system said, without the operation and the path.
func cause(err error) string {
	if p, ok := err.(*os.PathError); ok {
		return p.Err.Error()
	}
	return err.Error()
}
