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
type logs struct {
	handler slog.Handler
	file    io.Closer // nil without LOG_FILE
}

// openLogs sets up the log as the settings say. stdout always gets every line.
func openLogs(c *common, stdout io.Writer) (*logs, error) {
	out := &tee{writers: []io.Writer{stdout}}
	l := &logs{handler: newHandler(c.logFormat, parseLevel(c.logLevel), out)}
	if c.logFile == "" {
		return l, nil
	}
	// The rotating writer opens the file with its first line and would then
	// fail line after line: find out now.
	f, err := os.OpenFile(c.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return nil, &SettingError{
			Name: "LOG_FILE", Value: c.logFile, Problem: "cannot be written: " + cause(err),
			Allowed: "a file in a directory that exists",
		}
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	file := &timberjack.Logger{Filename: c.logFile, MaxSize: logFileMegabytes, MaxBackups: logFilesKept}
	out.writers = append(out.writers, file)
	l.file = file
	return l, nil
}

// close writes nothing more to the file.
func (l *logs) close() {
	if l.file != nil {
		_ = l.file.Close() // at the end of the program: there is nobody to tell
	}
}

// cause is what the system said, without the operation and the path.
func cause(err error) string {
	if p, ok := err.(*os.PathError); ok {
		return p.Err.Error()
	}
	return err.Error()
}
