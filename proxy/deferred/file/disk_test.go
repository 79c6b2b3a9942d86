package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/testkit"
	"weir/proxy/deferred"
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
	testkit.Ends(t, cmd, 0)
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
	cfg := Config{Path: path, Limits: roomy, Log: log.Logger(), hooks: hooks{retry: 10 * time.Millisecond}}
	q, err := Open(time.Now(), cfg)
	if err != nil {
		return err
	}
	if err := os.WriteFile(ballast, make([]byte, 4<<20), 0o600); err != nil {
		return err
	}
	var accepted []deferred.ID
	e := order("shop", make([]byte, 64<<10))
	s := put(q, e)
	for ; s.Outcome == deferred.Accepted; s = put(q, e) {
		accepted = append(accepted, e.ID)
		e = order("shop", make([]byte, 64<<10))
	}
	if s.Outcome != deferred.Unstored || !errors.Is(s.Err, unix.ENOSPC) || len(accepted) < 10 {
		return fmt.Errorf("after %d entries: %s, %w", len(accepted), s.Outcome, s.Err)
	}
	refused := e.ID
	for s = put(q, order("shop", nil)); s.Outcome != deferred.Unstored; s = put(q, order("shop", nil)) {
		accepted = append(accepted, s.ID) // it wrote again for a moment
	}
	if err := os.Remove(ballast); err != nil {
		return err
	}
	for s.Outcome != deferred.Accepted {
		s = put(q, order("shop", nil))
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

// A disk that fails for a while costs no settlement, and nothing that was answered Unstored is
// delivered.
func TestDiskFails(t *testing.T) {
	t.Parallel()
	var log testkit.Log
	failing := make(chan bool, 1)
	failing <- false
	q := opened(t, Config{Path: queuePath(t), Log: log.Logger(), hooks: hooks{retry: 5 * time.Millisecond, committing: func() error {
		bad := <-failing
		failing <- bad
		if bad {
			return unix.EROFS
		}
		return nil
	}}})
	set := func(bad bool) { <-failing; failing <- bad }
	first, second := order("a", nil), order("b", nil)
	putAll(t, q, first, second)
	claimed, _, err := q.Claim(t.Context(), time.Now(), 1)
	if err != nil || len(claimed) != 1 {
		t.Fatal(len(claimed), err)
	}
	set(true)
	settled := make(chan error, 1)
	q.Settle(time.Now(), &deferred.Settlement{Lease: claimed[0].Lease, To: deferred.Done, Attempt: true, Keep: time.Hour, Done: func(err error) { settled <- err }})
	refused := order("c", nil)
	if s := put(q, refused); s.Outcome != deferred.Unstored || !errors.Is(s.Err, unix.EROFS) {
		t.Fatalf("%s, %v", s.Outcome, s.Err)
	}
	if _, _, err := q.Claim(t.Context(), time.Now(), 1); !errors.Is(err, unix.EROFS) || q.Stats().Err == nil {
		t.Errorf("claimed from a disk that cannot be written: %v", err)
	}
	if _, _, err := q.Read(t.Context(), second.ID); err != nil {
		t.Errorf("it can still be read: %v", err)
	}
	set(false)
	if err := testkit.Receive(t, settled, "the settlement"); err != nil {
		t.Errorf("settled: %v", err)
	}
	if e, _, err := q.Read(t.Context(), claimed[0].Entry.ID); err != nil || e.State != deferred.Done {
		t.Errorf("settled is %v, %v", e, err)
	}
	if _, _, err := q.Read(t.Context(), refused.ID); !errors.Is(err, deferred.ErrNotFound) {
		t.Errorf("refused: %v", err)
	}
	if claimed, _, err := q.Claim(t.Context(), time.Now(), 9); err != nil || len(claimed) != 1 {
		t.Errorf("%d are claimed then: %v", len(claimed), err)
	}
	if log.Count("Queue cannot be written") != 1 || log.Count("Queue writes again") != 1 {
		t.Errorf("logged %s", &log)
	}
}

// Two proxies do not share a file.
func TestInUse(t *testing.T) {
	t.Parallel()
	path := queuePath(t)
	first := opened(t, Config{Path: path})
	_, err := Open(time.Now(), Config{Path: path, Limits: roomy})
	if !errors.Is(err, deferred.ErrInUse) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
	putAll(t, first, order("a", nil))
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	opened(t, Config{Path: path})
}

// With another key, and with none, a queue is not opened and not changed.
func TestKey(t *testing.T) {
	t.Parallel()
	path := queuePath(t)
	key := bytes.Repeat([]byte{1}, KeyBytes)
	q := opened(t, Config{Path: path})
	e := order("a", []byte("Authorization"))
	putAll(t, q, e)
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
	for _, bad := range [][]byte{nil, key[:31], bytes.Repeat([]byte{2}, KeyBytes)} {
		if _, err := Open(time.Now(), Config{Path: path, Limits: roomy, Key: bad}); err == nil || !strings.Contains(err.Error(), "key") || !strings.Contains(err.Error(), path) {
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
