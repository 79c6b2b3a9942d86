// Package accesslog writes a line for each request. Loops format lines into ring buffers,
// and one goroutine writes them, so that no loop waits for a disk.
package accesslog

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"weir/internal/program/ownfile"
)

// Stdout is the name of a log on standard output.
const Stdout = "stdout"

const (
	// writeInterval is how long a line may wait before it is written.
	writeInterval = 100 * time.Millisecond
	// warnInterval is how often lost lines are reported.
	warnInterval = time.Minute
	// closeWait bounds how long Close waits for a pipe without a reader or a disk that hangs.
	closeWait = 5 * time.Second
)

// A Writer writes the lines of the rings to a file or to standard output.
//
// Safe for concurrent use: next and failed are atomic; the rest is immutable or belongs to its
// goroutine.
type Writer struct {
	name   string
	rings  []*Ring
	log    *slog.Logger
	wake   chan struct{}
	stop   chan struct{}
	done   chan struct{}
	failed atomic.Uint64                  // lines that could not be written
	next   atomic.Pointer[io.WriteCloser] // file opened by Reopen

	out      io.WriteCloser
	cause    error  // why the last lines could not be written; nil: they were written
	torn     bool   // the last write ended within a line
	warned   uint64 // value of Dropped at the last warning
	warnedAt time.Time
}

// Open opens the named log, Stdout or a file, with a ring for each of n loops. The caller
// closes it.
func Open(name string, n int, log *slog.Logger) (*Writer, error) {
	w := &Writer{name: name, log: log, wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	var err error
	if w.out, err = open(name); err != nil {
		return nil, err
	}
	for range n {
		w.rings = append(w.rings, &Ring{bytes: make([]byte, ringBytes), wake: w.wake})
	}
	go w.run()
	return w, nil
}

// Check reports why the named log cannot be opened, as far as it can be checked without
// creating the file.
func Check(name string) error {
	if name == Stdout {
		return nil
	}
	f, err := ownfile.Open(name, os.O_APPEND|os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err == nil {
		return f.Close()
	}
	if folder, folderErr := os.Stat(filepath.Dir(name)); errors.Is(err, fs.ErrNotExist) && folderErr == nil &&
		folder.IsDir() {
		return nil
	}
	return err
}

// open opens the named file. For a pipe without a reader it returns an error instead of waiting.
func open(name string) (io.WriteCloser, error) {
	if name == Stdout {
		return standard{}, nil
	}
	return ownfile.Open(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY|syscall.O_NONBLOCK, 0o640)
}

// standard is standard output, which is never closed.
type standard struct{}

// Write implements io.Writer.
func (standard) Write(p []byte) (int, error) { return os.Stdout.Write(p) }

// Close implements io.Closer.
func (standard) Close() error { return nil }

// Ring returns the ring of a loop.
func (w *Writer) Ring(loop int) *Ring { return w.rings[loop] }

// Reopen opens the file by its name again, and uses it after the current write. If that fails,
// the log continues in the previous file.
func (w *Writer) Reopen() error {
	out, err := open(w.name)
	if err != nil {
		return err
	}
	if unused := w.next.Swap(&out); unused != nil {
		_ = (*unused).Close()
	}
	return nil
}

// swap switches to the file that Reopen has opened, if there is one.
func (w *Writer) swap() {
	if next := w.next.Swap(nil); next != nil {
		_ = w.out.Close() // nothing is buffered
		w.out, w.torn = *next, false
	}
}

// Dropped returns how many lines were lost, because a ring was full or they could not be
// written.
func (w *Writer) Dropped() uint64 {
	n := w.failed.Load()
	for _, r := range w.rings {
		n += r.dropped.Load()
	}
	return n
}

// Close writes the remaining lines and closes the log, after the last Put. Lines that cannot be
// written within five seconds are lost, because the program must end.
func (w *Writer) Close() {
	close(w.stop)
	select {
	case <-w.done:
	case <-time.After(closeWait):
		w.log.Warn("The last lines of the access log are lost: it accepts none")
		return
	}
	w.swap()
	_ = w.out.Close()
}

func (w *Writer) run() {
	defer close(w.done)
	tick := time.NewTicker(writeInterval)
	defer tick.Stop()
	var batch []byte
	for open := true; open; {
		select {
		case <-w.stop:
			open = false
		case <-w.wake:
		case <-tick.C:
		}
		for _, r := range w.rings {
			w.swap()
			batch = r.take(batch[:0])
			w.write(batch)
		}
		w.warn(time.Now())
	}
}

// write writes whole lines. Lines that cannot be written are lost: the disk may be full for
// long, and new lines are more useful than old ones.
func (w *Writer) write(lines []byte) {
	if len(lines) == 0 {
		return
	}
	if w.torn {
		if _, err := w.out.Write([]byte{'\n'}); err != nil {
			w.lose(lines, err)
			return
		}
		w.torn = false
	}
	n, err := w.out.Write(lines)
	if err == nil {
		w.cause = nil
		return
	}
	w.torn = n > 0 && lines[n-1] != '\n'
	w.lose(lines[n:], err)
}

// lose counts lines that could not be written.
func (w *Writer) lose(lines []byte, why error) {
	w.failed.Add(uint64(bytes.Count(lines, []byte{'\n'})))
	w.cause = why
}

// warn logs how many lines were lost, at most once a minute.
func (w *Writer) warn(now time.Time) {
	n := w.Dropped()
	if n == w.warned || !w.warnedAt.IsZero() && now.Sub(w.warnedAt) < warnInterval {
		return
	}
	reason := "lines come faster than they are written"
	if w.cause != nil {
		reason = w.cause.Error()
	}
	w.log.Warn("Lines of the access log were lost", "count", n-w.warned, "reason", reason)
	w.warned, w.warnedAt = n, now
}
