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
)

// Stdout is the name of the log that goes to the standard output.
const Stdout = "stdout"

const (
	// writeInterval is how long a line may wait before it is written.
	writeInterval = 100 * time.Millisecond
	// warnInterval is how often lost lines are reported.
	warnInterval = time.Minute
	// closeWait is how long Close waits for a pipe without a reader, or a disk that hangs.
	closeWait = 5 * time.Second
)

// A Writer writes what the rings hold to a file or the standard output.
//
// Safe for concurrent use: next and failed are atomic; the rest is immutable or its
// goroutine's.
type Writer struct {
	name   string
	rings  []*Ring
	log    *slog.Logger
	wake   chan struct{}
	stop   chan struct{}
	done   chan struct{}
	failed atomic.Uint64                  // lines that could not be written
	next   atomic.Pointer[io.WriteCloser] // where the log is to go on, after Reopen

	out    io.WriteCloser
	cause  error // of the last lines that could not be written; nil: they could
	torn   bool  // what was written last ends within a line
	told   uint64
	toldAt time.Time
}

// Open opens a log by its name, Stdout or a file's, with a ring for each of n loops. The
// caller closes it.
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

// Check reports why a log of that name cannot be opened, as far as that shows without
// making a file.
func Check(name string) error {
	if name == Stdout {
		return nil
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err == nil {
		return f.Close()
	}
	if folder, folderErr := os.Stat(filepath.Dir(name)); errors.Is(err, fs.ErrNotExist) && folderErr == nil && folder.IsDir() {
		return nil
	}
	return err
}

// open opens the file of a name. A pipe without a reader is an error and no wait.
func open(name string) (io.WriteCloser, error) {
	if name == Stdout {
		return standard{}, nil
	}
	return os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY|syscall.O_NONBLOCK, 0o640)
}

// standard is the standard output, which stays open.
type standard struct{}

// Write is part of io.Writer.
func (standard) Write(p []byte) (int, error) { return os.Stdout.Write(p) }

// Close is part of io.Closer.
func (standard) Close() error { return nil }

// Ring is that of a loop.
func (w *Writer) Ring(loop int) *Ring { return w.rings[loop] }

// Reopen has the log go on in the file that has the name now, as soon as what is being
// written is. With an error it goes on as before.
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

// goOn goes on in the file that Reopen has opened, if there is one.
func (w *Writer) goOn() {
	if next := w.next.Swap(nil); next != nil {
		_ = w.out.Close() // nothing is buffered
		w.out, w.torn = *next, false
	}
}

// Dropped is how many lines were lost: there was no room for them, or they could not be
// written.
func (w *Writer) Dropped() uint64 {
	n := w.failed.Load()
	for _, r := range w.rings {
		n += r.dropped.Load()
	}
	return n
}

// Close writes what is left and closes the log. Nothing is put any more. What cannot be
// written within closeWait is given up: the program is to end.
func (w *Writer) Close() {
	close(w.stop)
	select {
	case <-w.done:
	case <-time.After(closeWait):
		w.log.Warn("The last lines of the access log are lost: it takes nothing")
		return
	}
	w.goOn()
	_ = w.out.Close()
}

// run writes until Close.
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
			w.goOn()
			batch = r.take(batch[:0])
			w.write(batch)
		}
		w.warn(time.Now())
	}
}

// write writes whole lines. Those that are not written are lost: the disk may be full for
// long, and what comes is more interesting than what was.
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

// warn reports lines that were lost, once a minute at most.
func (w *Writer) warn(now time.Time) {
	n := w.Dropped()
	if n == w.told || !w.toldAt.IsZero() && now.Sub(w.toldAt) < warnInterval {
		return
	}
	reason := "lines come faster than they are written"
	if w.cause != nil {
		reason = w.cause.Error()
	}
	w.log.Warn("Lines of the access log were lost", "count", n-w.told, "reason", reason)
	w.told, w.toldAt = n, now
}
