package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/test/testkit"
	"weir/proxy/deferred"
	"weir/proxy/deferred/deferredtest"
)

// A full disk and one that is read-only refuse, and lose nothing; the queue goes on by itself when
// there is room. The disk is a file system in memory that only a process of its own sees.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	cmd := testkit.Command(t, nil, "full", t.TempDir())
	cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWNS
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	testkit.RequireExit(t, cmd, 0)
}

// full is the process of TestDiskFull.
func full(folder string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("none", folder, "tmpfs", 0, "size=8m"); err != nil {
		return fmt.Errorf("mount a tmpfs: %w", err)
	}
	path, ballast := filepath.Join(folder, "queue"), filepath.Join(folder, "ballast")
	var log testkit.Log
	cfg := Config{Path: path, Limits: deferredtest.LargeLimits, Log: log.Logger(),
		hooks: hooks{retry: 10 * time.Millisecond}}
	q, err := Open(time.Now(), cfg)
	if err != nil {
		return err
	}
	if err := os.WriteFile(ballast, make([]byte, 4<<20), 0o600); err != nil {
		return err
	}
	var accepted []deferred.ID
	e := order("shop", make([]byte, 64<<10))
	s := deferredtest.Put(q, e)
	for ; s.Outcome == deferred.Accepted; s = deferredtest.Put(q, e) {
		accepted = append(accepted, e.ID)
		e = order("shop", make([]byte, 64<<10))
	}
	if s.Outcome != deferred.Unstored || !errors.Is(s.Err, unix.ENOSPC) || len(accepted) < 10 {
		return fmt.Errorf("after %d entries: %s, %w", len(accepted), s.Outcome, s.Err)
	}
	refused := e.ID
	for s = deferredtest.Put(q, order("shop", nil)); s.Outcome != deferred.Unstored; s = deferredtest.Put(q,
		order("shop", nil)) {
		accepted = append(accepted, s.ID) // it wrote again for a moment
	}
	if err := os.Remove(ballast); err != nil {
		return err
	}
	for s.Outcome != deferred.Accepted {
		s = deferredtest.Put(q, order("shop", nil))
	}
	accepted = append(accepted, s.ID)
	if n := log.Count("Queue cannot be written"); n == 0 || n > log.Count("Queue writes again")+1 {
		return fmt.Errorf("logged %s", log.String())
	}
	if err := holds(q, accepted, refused); err != nil {
		return err
	}
	if err := q.Close(); err != nil {
		return err
	}
	return readOnly(folder, cfg, accepted)
}

// holds checks that the queue has what was accepted, and not what was refused.
func holds(q *Queue, accepted []deferred.ID, refused deferred.ID) error {
	for _, id := range accepted {
		if _, _, err := q.Read(context.Background(), id); err != nil {
			return fmt.Errorf("accepted was %s: %w", id, err)
		}
	}
	if _, _, err := q.Read(context.Background(), refused); !errors.Is(err, deferred.ErrNotFound) {
		return fmt.Errorf("refused was %s: %w", refused, err)
	}
	if n := q.Stats().Rules[0].States[deferred.Waiting].Entries; n != len(accepted) {
		return fmt.Errorf("%d are waiting of %d", n, len(accepted))
	}
	return nil
}

// readOnly opens the queue on a file system that cannot be written, and again when it can.
func readOnly(folder string, cfg Config, accepted []deferred.ID) error {
	if err := unix.Mount("none", folder, "tmpfs", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("remount read-only: %w", err)
	}
	_, err := Open(time.Now(), cfg)
	if !errors.Is(err, unix.EROFS) || !strings.Contains(err.Error(), cfg.Path) {
		return fmt.Errorf("opened read-only: %w", err)
	}
	if err := unix.Mount("none", folder, "tmpfs", unix.MS_REMOUNT, ""); err != nil {
		return fmt.Errorf("remount: %w", err)
	}
	q, err := Open(time.Now(), cfg)
	if err != nil {
		return err
	}
	if err := holds(q, accepted, deferred.ID{}); err != nil {
		return err
	}
	return q.Close()
}

// A disk that fails for a while, before a group is written or when it may be, costs nothing: what
// was answered Unstored is not there, what was not claimed can be, and what was settled is.
func TestDiskFails(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprint("after the commit: ", after), func(t *testing.T) {
			t.Parallel()
			diskFails(t, after)
		})
	}
}

func diskFails(t *testing.T, after bool) {
	var log testkit.Log
	var failing atomic.Bool
	hook := func() error {
		if failing.Load() {
			return unix.EROFS
		}
		return nil
	}
	cfg := Config{Path: queuePath(t), Log: log.Logger(), hooks: hooks{retry: 5 * time.Millisecond, committing: hook}}
	if after {
		cfg.hooks.committing, cfg.hooks.committed = nil, hook
	}
	q := opened(t, cfg)
	healed := func() {
		failing.Store(false)
		testkit.Eventually(t, "the queue writes again", func() bool { return q.Stats().Err == nil })
	}
	e := order("a", nil)
	deferredtest.PutAccepted(t, q, e)

	failing.Store(true)
	refused := order("b", nil)
	if s := deferredtest.Put(q, refused); s.Outcome != deferred.Unstored || !errors.Is(s.Err, unix.EROFS) {
		t.Fatalf("%s, %v", s.Outcome, s.Err)
	}
	if _, _, err := q.Read(t.Context(), e.ID); err != nil {
		t.Errorf("it can still be read: %v", err)
	}
	healed()
	if _, _, err := q.Read(t.Context(), refused.ID); !errors.Is(err, deferred.ErrNotFound) {
		t.Errorf("what was refused: %v", err)
	}

	failing.Store(true)
	if _, _, err := q.Claim(t.Context(), time.Now(), 9); !errors.Is(err, unix.EROFS) {
		t.Errorf("claimed: %v", err)
	}
	claim := make(chan error, 1) // looked whether the queue is broken just before it was
	if err := q.box.Add(&op{run: func(*turn) { t.Error("it is run") }, done: func(err error) { claim <- err }},
		0); err != nil {
		t.Fatal(err)
	}
	if err := testkit.Receive(t, claim, "an answer while the disk fails"); !errors.Is(err, unix.EROFS) {
		t.Errorf("claimed when the queue was broken: %v", err)
	}
	healed()
	claimed := deferredtest.RequireClaims(t, q, time.Now(), 1)
	if claimed[0].Entry.ID != e.ID || claimed[0].Entry.Attempts != 0 {
		t.Fatalf("%s is claimed then, after %d attempts", claimed[0].Entry.ID, claimed[0].Entry.Attempts)
	}

	failing.Store(true)
	settled := make(chan error, 1)
	q.Settle(time.Now(), &deferred.Settlement{Lease: claimed[0].Lease, To: deferred.Done, Attempt: true,
		Keep: time.Hour, Done: func(err error) { settled <- err }})
	testkit.Eventually(t, "the queue fails", func() bool { return q.Stats().Err != nil })
	healed()
	if err := testkit.Receive(t, settled, "the settlement"); err != nil {
		t.Errorf("settled: %v", err)
	}
	if e, _, err := q.Read(t.Context(), e.ID); err != nil || e.State != deferred.Done || e.Attempts != 1 {
		t.Errorf("settled is %+v, %v", e, err)
	}
	if log.Count("Queue cannot be written") != 3 || log.Count("Queue writes again") != 3 {
		t.Errorf("logged %s", &log)
	}
}

// TestPutsDuringOutage tests what every queue guarantees while its store is unavailable.
func TestPutsDuringOutage(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	q := opened(t, Config{Path: queuePath(t), hooks: hooks{retry: 5 * time.Millisecond, committing: func() error {
		if away.Load() {
			return unix.EROFS
		}
		return nil
	}}})
	deferredtest.PutsDuringOutage(t, q, func() { away.Store(true) }, func() { away.Store(false) })
}

// Two proxies do not share a file.
func TestInUse(t *testing.T) {
	t.Parallel()
	path := queuePath(t)
	first := opened(t, Config{Path: path})
	_, err := Open(time.Now(), Config{Path: path, Limits: deferredtest.LargeLimits})
	if !errors.Is(err, deferred.ErrInUse) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
	deferredtest.PutAccepted(t, first, order("a", nil))
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	opened(t, Config{Path: path})
}

// With another key, and with none, a queue is not opened and not changed.
func TestKey(t *testing.T) {
	t.Parallel()
	path := queuePath(t)
	key := bytes.Repeat([]byte{1}, deferred.SealKeyBytes)
	q := opened(t, Config{Path: path})
	e := order("a", []byte("Authorization"))
	deferredtest.PutAccepted(t, q, e)
	_ = q.Close()
	q = opened(t, Config{Path: path, Key: key}) // is encrypted from now on
	if got, _, err := q.Read(t.Context(), e.ID); err != nil || !bytes.Equal(got.Body, e.Body) {
		t.Fatalf("read after encryption: %v", err)
	}
	_ = q.Close()
	before, err := os.ReadFile(path)
	if err != nil || bytes.Contains(before, e.Body) {
		t.Fatalf("what is in the file can be read: %v", err)
	}
	for _, bad := range [][]byte{nil, key[:31], bytes.Repeat([]byte{2}, deferred.SealKeyBytes)} {
		if _, err := Open(time.Now(), Config{Path: path, Limits: deferredtest.LargeLimits, Key: bad}); err == nil ||
			!strings.Contains(err.Error(), "key") || !strings.Contains(err.Error(), path) {
			t.Errorf("a key of %d bytes: %v", len(bad), err)
		}
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file has changed, %v", err)
	}
	if left, _ := filepath.Glob(path + "*"); len(left) != 2 { // and the lock
		t.Errorf("there are %v", left)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != fileMode {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	opened(t, Config{Path: path, Key: key})
}
