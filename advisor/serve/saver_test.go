package serve

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/advisor/config"
	"weir/internal/program/service"
	"weir/internal/test/testkit"
)

// kept returns settings with a state file.
func kept(path string) config.Config {
	cfg := defaults()
	cfg.StateFile = path
	return cfg
}

// What was learned is available after a restart, and learning continues.
func TestRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "advisor.state")
	a := start(t, kept(path))
	feed(t, a.locked, monday, monday.Add(2*time.Hour), time.Minute)
	before := testkit.JSON(newState(a))
	a.stop()
	b := start(t, kept(path))
	if after := testkit.JSON(newState(b)); after != before {
		t.Errorf("after a restart the state is\n%s, before\n%s", after, before)
	}
	if log := b.log.String(); !strings.Contains(log, "Restored what was learned") ||
		!strings.Contains(log, "rounds=120") || !strings.Contains(log, "replayed=0") {
		t.Errorf("the log is\n%s", log)
	}
	feed(t, b.locked, monday.Add(2*time.Hour), monday.Add(3*time.Hour), time.Minute)
	if b.locked.view().Rounds != 180 || b.locked.sequence != 180 {
		t.Errorf("after %d rounds and %d records", b.locked.view().Rounds, b.locked.sequence)
	}
	if _, text := b.do("GET", "/metrics", ""); !strings.Contains(text, "\nadvisor_state_writes_total 1\n") ||
		!strings.Contains(text, "\nadvisor_history_bytes ") {
		t.Errorf("the metrics are\n%s", text)
	}
}

// The image is rewritten when it is due.
func TestCheckpointIsDue(t *testing.T) {
	r := start(t, kept(filepath.Join(t.TempDir(), "s")))
	k := r.saver
	now := time.Now()
	if k.due(now.Add(2*time.Hour), k.store.RecordCounts()) {
		t.Error("it is due though nothing has happened")
	}
	feed(t, r.locked, monday, monday.Add(time.Minute), 30*time.Second)
	figures := k.store.RecordCounts()
	if k.due(now, figures) || !k.due(now.Add(2*time.Hour), figures) {
		t.Error("it is not due when an hour is over, or before")
	}
	figures.Lost++
	if !k.due(now, figures) {
		t.Error("it is not due when the journal has lost something")
	}
	figures.Lost--
	figures.JournalBytes += journalMax
	if !k.due(now, figures) {
		t.Error("it is not due when the journal is long")
	}
}

// A damaged state is kept under another name and logged, and the advisor starts.
func TestCorrupt(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, path string)
		want  string
	}{
		{"other", func(t *testing.T, path string) { write(t, path, "my diary") },
			"is not a state of the advisor, starting from scratch"},
		{"cut", func(t *testing.T, path string) { write(t, path, read(t, path)[:2000]) }, "is cut off"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s")
			a := start(t, kept(path))
			feed(t, a.locked, monday, monday.Add(10*time.Minute), 30*time.Second)
			a.stop()
			c.spoil(t, path)
			b := start(t, kept(path))
			if log := b.log.String(); !strings.Contains(log, "level=WARN") || !strings.Contains(log, c.want) ||
				!strings.Contains(log, "it is kept as "+path+".corrupt-") {
				t.Errorf("the log is\n%s", log)
			}
			if b.locked.view().Rounds != 0 {
				t.Errorf("%d rounds are known", b.locked.view().Rounds)
			}
			if names, err := filepath.Glob(path + ".corrupt-*"); err != nil || len(names) != 1 {
				t.Errorf("put aside: %v, %v", names, err)
			}
			b.post(snapAt(monday))
		})
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data := testkit.Must(os.ReadFile(path))(t)
	return string(data)
}

func write(t *testing.T, path, data string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestStateFileOfNoUse(t *testing.T) {
	taken := filepath.Join(t.TempDir(), "s")
	start(t, kept(taken))
	for _, c := range []struct{ path, want string }{
		{"/proc/nowhere/s", `STATE_FILE: "/proc/nowhere/s" cannot be used: open state: open /proc/nowhere/s.lock: `},
		{taken, "is in use by another advisor"},
		{t.TempDir(), "is a directory"},
	} {
		_, err := New(t.Context(), &service.Env{Addr: "127.0.0.1:0"}, kept(c.path))
		if _, ok := errors.AsType[*service.SettingError](err); !ok || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.path, err, c.want)
		}
	}
}

// It is logged once that the disk accepts no writes, and once that it does again. Snapshots are
// answered all the time.
func TestDiskAway(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "s")
	r := start(t, kept(path))
	if err := os.Rename(folder, folder+"-away"); err != nil {
		t.Fatal(err)
	}
	r.post(snapAt(monday))
	log := new(testkit.Log)
	now := time.Now()
	// A saver that is called with the times of the test.
	k := &saver{locked: r.locked, store: r.saver.store, every: time.Hour, log: log.Logger(), savedAt: now, tried: now}
	for i := range 5 {
		k.look(now.Add(2*time.Hour + time.Duration(i)*retryPause))
	}
	if text := log.String(); strings.Count(text, "State cannot be written") != 1 || k.failures.Load() != 5 {
		t.Errorf("after %d failures the log is\n%s", k.failures.Load(), text)
	}
	r.post(snapAt(monday.Add(30 * time.Second)))
	if err := os.Rename(folder+"-away", folder); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the state is written again", func() bool {
		now = now.Add(3 * time.Hour)
		k.look(now)
		return strings.Contains(log.String(), "State can be written again")
	})
	r.post(snapAt(monday.Add(60 * time.Second)))
	r.stop()
	if again := start(t, kept(path)); again.locked.view().Rounds != 3 {
		t.Errorf("%d rounds are known", again.locked.view().Rounds)
	}
}

// An advisor starts with a full disk, logs it, and saves when there is room again.
func TestStartOnFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	if err := os.Symlink("/dev/full", path+".tmp"); err != nil { // until the first attempt removes it
		t.Fatal(err)
	}
	m := newLockedCore(tuningOf(&config.Config{LimitMin: 5, LimitMax: 100, Zone: time.UTC}))
	log := new(testkit.Log)
	now := time.Now()
	cfg := kept(path)
	k := testkit.Must(openSaver(now, &cfg, m, log.Logger()))(t)
	defer k.store.Close()
	if text := log.String(); !strings.Contains(text, "level=WARN msg=\"State cannot be written") ||
		!strings.Contains(text, "no space left on device") || !k.troubled.Load() {
		t.Errorf("the log is\n%s", text)
	}
	if text := testkit.JSON(k.health()); !strings.Contains(text, "DOWN") {
		t.Errorf("the health is %s", text)
	}
	k.look(now.Add(retryPause - time.Second))
	if strings.Contains(log.String(), "State can be written again") || !k.troubled.Load() {
		t.Errorf("too early the log is\n%s", log)
	}
	k.look(now.Add(retryPause))
	if !strings.Contains(log.String(), "State can be written again") || k.troubled.Load() || read(t, path) == "" {
		t.Errorf("with room again the log is\n%s", log)
	}
	if text := testkit.JSON(k.health()); !strings.Contains(text, "UP") {
		t.Errorf("the health is %s", text)
	}
}
