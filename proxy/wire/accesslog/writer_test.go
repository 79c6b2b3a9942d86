package accesslog

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

// A ring gives back what was put, in order, round its end, and drops what has no room.
func TestRing(t *testing.T) {
	r := &Ring{bytes: make([]byte, 16), wake: make(chan struct{}, 1)}
	for i := range 10 {
		line := fmt.Sprintf("line %d of 9\n", i)
		r.Put([]byte(line))
		r.Put([]byte("no room"))
		if got := string(r.take(nil)); got != line {
			t.Errorf("took %q, put %q", got, line)
		}
	}
	r.Put([]byte("0123456789abcdef")) // just fits
	if got := len(r.take(nil)); got != 16 || r.dropped.Load() != 10 {
		t.Errorf("took %d bytes; %d dropped", got, r.dropped.Load())
	}
}

// What loops put while the writer takes is all there, or counted.
func TestWriterLosesNothingUnseen(t *testing.T) {
	name := filepath.Join(t.TempDir(), "access.log")
	w := testkit.Must(Open(name, 2, slog.New(slog.DiscardHandler)))(t)
	const lines = 50_000
	done := make(chan bool)
	for loop := range 2 {
		go func() {
			for i := range lines {
				w.Ring(loop).Put(fmt.Appendf(nil, "loop %d line %d %s\n", loop, i, strings.Repeat("x", i%200)))
			}
			done <- true
		}()
	}
	<-done
	if err := os.Rename(name, name+".1"); err != nil {
		t.Fatal(err)
	}
	if err := w.Reopen(); err != nil {
		t.Fatal(err)
	}
	<-done
	w.Close()
	var text []byte
	for _, file := range []string{name + ".1", name} {
		part := testkit.Must(os.ReadFile(file))(t)
		text = append(text, part...)
	}
	whole := 0
	for line := range bytes.Lines(text) {
		var loop, i int
		if n, _ := fmt.Sscanf(string(line), "loop %d line %d ", &loop, &i); n != 2 ||
			strings.Count(string(line), "x") != i%200 {
			t.Fatalf("wrote %q", line)
		}
		whole++
	}
	if uint64(whole)+w.Dropped() != 2*lines {
		t.Errorf("%d lines written, %d dropped, want %d", whole, w.Dropped(), 2*lines)
	}
}

// half is a disk that fills up in the middle of a line.
type half struct {
	bytes.Buffer
	room int
}

func (h *half) Write(p []byte) (int, error) {
	n, _ := h.Buffer.Write(p[:min(len(p), h.room)])
	if h.room -= n; n < len(p) {
		return n, errors.New("no space left on device")
	}
	return n, nil
}

func (h *half) Close() error { return nil }

// A full disk costs the lines that it has no room for, and no others are garbled.
func TestFullDisk(t *testing.T) {
	var log bytes.Buffer
	disk := &half{room: 10}
	w := &Writer{out: disk, log: slog.New(slog.NewTextHandler(&log, nil))}
	w.write([]byte("first\nsecond\nthird\n"))
	w.write([]byte("fourth\n"))
	w.warn(time.Now())
	disk.room = 100
	w.write([]byte("fifth\n"))
	w.warn(time.Now())
	if got := disk.String(); got != "first\nseco\nfifth\n" || w.Dropped() != 3 {
		t.Errorf("wrote %q, dropped %d", got, w.Dropped())
	}
	if got := log.String(); strings.Count(got, "WARN") != 1 ||
		!strings.Contains(got, `count=3 reason="no space left on device"`) {
		t.Errorf("logged %s", got)
	}
}

// /dev/full is a disk that stays full.
func TestDevFull(t *testing.T) {
	w := testkit.Must(Open("/dev/full", 1, slog.New(slog.DiscardHandler)))(t)
	w.Ring(0).Put([]byte("a\nb\n"))
	testkit.Eventually(t, "the lines count as dropped", func() bool { return w.Dropped() == 2 })
	w.Close()
}

func TestPutDoesNotAllocate(t *testing.T) {
	r := &Ring{bytes: make([]byte, 1<<10), wake: make(chan struct{}, 1)}
	line := []byte(strings.Repeat("x", 300))
	if n := testing.AllocsPerRun(100, func() { r.Put(line); r.head.Store(r.tail.Load()) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A reader that takes nothing keeps the program neither from reloading nor from ending.
func TestStalledReader(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	reader := testkit.Must(os.OpenFile(name, os.O_RDWR, 0))(t)
	defer reader.Close()
	w := testkit.Must(Open(name, 1, slog.New(slog.DiscardHandler)))(t)
	line := []byte(strings.Repeat("x", 1023) + "\n")
	for range ringBytes / len(line) { // more than a pipe takes
		w.Ring(0).Put(line)
	}
	testkit.Eventually(t, "the pipe is full", func() bool { return w.rings[0].head.Load() > 0 })
	for _, do := range []func(){func() { _ = w.Reopen() }, w.Close} {
		done := make(chan bool)
		go func() { do(); close(done) }()
		select {
		case <-done:
		case <-time.After(testkit.Timeout):
			t.Fatal("it waits for the reader")
		}
	}
}

// A link of another user is not written to.
func TestPlantedLink(t *testing.T) {
	name := filepath.Join(t.TempDir(), "access.log")
	testkit.PlantSymlink(t, name)
	if err := Check(name); err == nil {
		t.Error("a link of another user passes the check")
	}
	if _, err := Open(name, 1, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a link of another user is opened")
	}
}
