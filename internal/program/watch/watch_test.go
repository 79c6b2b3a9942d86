package watch

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// waitMax bounds the wait for a report.
const waitMax = 2 * time.Minute

// A folder contains files, one of which is watched.
type folder struct {
	t    *testing.T
	root string
	name string // of the file, below root

	mu   sync.Mutex
	seen string // content of the file when a change was reported last
}

func (f *folder) path(name string) string { return filepath.Join(f.root, name) }

// holds returns the content of the file.
func (f *folder) holds() string {
	text, err := os.ReadFile(f.path(f.name))
	if err != nil {
		return "none"
	}
	return string(text)
}

func (f *folder) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *folder) write(name, text string) {
	f.t.Helper()
	f.must(os.MkdirAll(filepath.Dir(f.path(name)), 0o700))
	f.must(os.WriteFile(f.path(name), []byte(text), 0o600))
}

func (f *folder) rename(from, to string) {
	f.t.Helper()
	f.must(os.Rename(f.path(from), f.path(to)))
}

func (f *folder) link(target, name string) {
	f.t.Helper()
	f.must(os.Symlink(target, f.path(name)))
}

func (f *folder) remove(name string) {
	f.t.Helper()
	f.must(os.RemoveAll(f.path(name)))
}

// told waits until a change to text is reported.
func (f *folder) told(text string) {
	f.t.Helper()
	for end := time.Now().Add(waitMax); ; time.Sleep(time.Millisecond) {
		f.mu.Lock()
		seen := f.seen
		f.mu.Unlock()
		if seen == text {
			return
		}
		if time.Now().After(end) {
			f.t.Fatalf("waited %v for a report of %q; the last one was of %q, and the content is %q", waitMax, text, seen,
				f.holds())
		}
	}
}

// kubernetes writes the file as the kubelet does: its name is a link through ..data, which
// is a link to a folder with a date, and is replaced.
func (f *folder) kubernetes(generation int, text string) {
	f.t.Helper()
	dated := fmt.Sprintf("..2026_01_%02d", generation)
	f.write(dated+"/rules.yaml", text)
	f.link(dated, "..data_tmp")
	f.rename("..data_tmp", "..data")
	f.remove(fmt.Sprintf("..2026_01_%02d", generation-1))
}

// A change is reported, whatever way it is made.
func TestWatch(t *testing.T) {
	for _, test := range []struct {
		name          string
		file          string
		before, after func(f *folder)
	}{
		{"written in place", "rules.yaml",
			func(f *folder) { f.write("rules.yaml", "old") },
			func(f *folder) { f.write("rules.yaml", "new") }},
		{"of the same length at once", "rules.yaml",
			func(f *folder) { f.write("rules.yaml", "old") },
			func(f *folder) { f.write("rules.yaml", "odd"); f.write("rules.yaml", "new") }},
		{"another renamed over it", "rules.yaml",
			func(f *folder) { f.write("rules.yaml", "old") },
			func(f *folder) { f.write(".rules.tmp", "new"); f.rename(".rules.tmp", "rules.yaml") }},
		{"as vim writes, with a backup", "rules.yaml",
			func(f *folder) { f.write("rules.yaml", "old") },
			func(f *folder) {
				f.rename("rules.yaml", "rules.yaml~")
				f.write("rules.yaml", "new")
				f.remove("rules.yaml~")
			}},
		{"removed and back", "rules.yaml",
			func(f *folder) { f.write("rules.yaml", "old") },
			func(f *folder) { f.remove("rules.yaml"); f.told("none"); f.write("rules.yaml", "new") }},
		{"missing at the start", "rules.yaml",
			func(*folder) {},
			func(f *folder) { f.write("rules.yaml", "new") }},
		{"missing with its folder", "a/b/rules.yaml",
			func(*folder) {},
			func(f *folder) { f.write("a/b/rules.yaml", "new") }},
		{"its folder removed and back", "a/rules.yaml",
			func(f *folder) { f.write("a/rules.yaml", "old") },
			func(f *folder) { f.remove("a"); f.told("none"); f.write("a/rules.yaml", "new") }},
		{"its folder swapped for another", "a/rules.yaml",
			func(f *folder) { f.write("a/rules.yaml", "old"); f.write("b/rules.yaml", "odd") },
			func(f *folder) { f.rename("a", "c"); f.rename("b", "a"); f.told("odd"); f.write("a/rules.yaml", "new") }},
		{"a ConfigMap", "rules.yaml",
			func(f *folder) { f.kubernetes(1, "old"); f.link("..data/rules.yaml", "rules.yaml") },
			func(f *folder) { f.kubernetes(2, "odd"); f.told("odd"); f.kubernetes(3, "new") }},
		{"a link to a file elsewhere", "a/rules.yaml",
			func(f *folder) {
				f.write("b/real.yaml", "old")
				f.must(os.Mkdir(f.path("a"), 0o700))
				f.link("../b/real.yaml", "a/rules.yaml")
			},
			func(f *folder) { f.write("b/real.yaml", "new") }},
		{"a link whose target is missing at first", "rules.yaml",
			func(f *folder) { f.link("real.yaml", "rules.yaml") },
			func(f *folder) { f.write("real.yaml", "new") }},
		{"in a folder with many other changes", "rules.yaml",
			func(f *folder) { f.write("rules.yaml", "old") },
			func(f *folder) {
				f.write("rules.yaml", "new")
				for i := range 500 {
					f.write(fmt.Sprint("log", i%7), strings.Repeat("x", i))
				}
			}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := &folder{t: t, root: t.TempDir(), name: test.file}
			test.before(f)
			run(t, f)
			test.after(f)
			f.told("new")
		})
	}
}

// run starts a watcher for the rest of the test.
func run(t *testing.T, f *folder) {
	t.Helper()
	w := New(f.path(f.name), f.path("other"))
	w.pause = 5 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Run(ctx, func() {
			text := f.holds()
			f.mu.Lock()
			f.seen = text
			f.mu.Unlock()
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
}

// A change is reported when a check has found nothing new since, or after some checks.
func TestSettles(t *testing.T) {
	f := &folder{t: t, root: t.TempDir(), name: "rules.yaml"}
	f.write("rules.yaml", "old")
	w := New(f.path("rules.yaml"))
	for i, step := range []struct {
		text    string // written before the check; empty: nothing
		changed bool
	}{
		{"", false}, {"new", false}, {"", true}, {"", false},
		{"half", false}, {"whole", false}, {"", true},
		{"odd", false}, {"whole", false}, {"", true}, // as reported before, but the other may be in force
		{"1", false}, {"2", false}, {"3", false}, {"4", true}, {"5", false}, {"", true}, {"", false},
	} {
		if step.text != "" {
			f.write("rules.yaml", step.text)
		}
		if changed := w.look(time.Now()); changed != step.changed {
			t.Errorf("step %d, %q is written: reported %t", i, step.text, changed)
		}
	}
}

// A look finds another content, and nothing else.
func TestLook(t *testing.T) {
	f := &folder{t: t, root: t.TempDir(), name: "rules.yaml"}
	old := time.Now().Add(-time.Hour)
	age := func() { f.must(os.Chtimes(f.path("rules.yaml"), old, old)) }
	w := &file{name: f.path("rules.yaml")}
	for _, test := range []struct {
		name    string
		do      func()
		changed bool
	}{
		{"missing", func() {}, false},
		{"created", func() { f.write("rules.yaml", "one") }, true},
		{"as before", func() {}, false},
		{"written with its own content", func() { f.write("rules.yaml", "one") }, false},
		{"replaced by an equal one", func() { f.write("tmp", "one"); f.rename("tmp", "rules.yaml") }, false},
		{"another length", func() { f.write("rules.yaml", "three") }, true},
		{"another age", age, false},
		{"its time is set back after a change", func() { f.write("rules.yaml", "seven"); age() }, true},
		{"not readable for others", func() { f.must(os.Chmod(f.path("rules.yaml"), 0o600)) }, false},
		{"emptied", func() { f.write("rules.yaml", "") }, true},
		{"removed", func() { f.remove("rules.yaml") }, true},
		{"still missing", func() {}, false},
		{"a folder", func() { f.must(os.Mkdir(f.path("rules.yaml"), 0o700)) }, true},
		{"a file again", func() { f.remove("rules.yaml"); f.write("rules.yaml", "one") }, true},
	} {
		now := time.Now() // before the change, which stays fresh however long it takes
		test.do()
		if changed := w.look(now); changed != test.changed {
			t.Errorf("%s: changed %t, want %t", test.name, changed, test.changed)
		}
	}
	if !w.fresh {
		t.Error("a file just written is not read at the next look")
	}
	if w.look(time.Now().Add(racy)); w.fresh || w.stat == nil {
		t.Error("a file that was written long ago is read at each look")
	}
}

// Two stats are of the same state if size and both times are equal.
func TestSame(t *testing.T) {
	f := &folder{t: t, root: t.TempDir()}
	f.write("a", "one")
	f.write("b", "one")
	stat := func(name string) fs.FileInfo {
		found, err := os.Stat(f.path(name))
		f.must(err)
		return found
	}
	one := stat("a")
	at := one.Sys().(*syscall.Stat_t).Ctim
	alike := func(name string, sec int64) fs.FileInfo { // of the same time of change but for seconds
		f.must(os.Chtimes(f.path(name), one.ModTime(), one.ModTime()))
		found := stat(name)
		found.Sys().(*syscall.Stat_t).Ctim = at
		found.Sys().(*syscall.Stat_t).Ctim.Sec += sec
		return found
	}
	f.must(os.Chtimes(f.path("a"), one.ModTime(), one.ModTime().Add(time.Hour)))
	later := stat("a")
	later.Sys().(*syscall.Stat_t).Ctim = at
	for _, test := range []struct {
		name  string
		other fs.FileInfo
		same  bool
	}{
		{"nothing", alike("a", 0), true},
		{"the time of the last change, as after a change that sets back the modification time", alike("a", 1), false},
		{"the modification time, as on a file system that keeps no other", later, false},
		{"the file", alike("b", 0), false},
		{"the existence", nil, false},
	} {
		if same(one, test.other) != test.same {
			t.Errorf("the stats differ in %s: same is %t", test.name, !test.same)
		}
	}
	f.write("a", "three")
	if same(one, alike("a", 0)) {
		t.Error("the stats differ in the size: same is true")
	}
}

// A report comes at least a pause after the content was written, also if reports take long.
func TestSlowReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &folder{t: t, root: t.TempDir(), name: "rules.yaml"}
		f.write("rules.yaml", "old")
		w := New(f.path("rules.yaml"))
		ctx, cancel := context.WithCancel(t.Context())
		var written time.Time
		write := func(text string) {
			f.write("rules.yaml", text)
			written = time.Now()
		}
		write("new")
		reports := 0
		go w.Run(ctx, func() {
			if age := time.Since(written); age < w.pause {
				t.Errorf("%q is reported %v after it was written", f.holds(), age)
			}
			if reports++; reports == 2 {
				cancel()
				return
			}
			time.Sleep(w.pause * 3 / 2)
			write("half")
		})
		<-ctx.Done()
		synctest.Wait()
	})
}

// The content of a folder is that of all its files except hidden ones.
func TestFolder(t *testing.T) {
	f := &folder{t: t, root: t.TempDir()}
	f.write("limits/a.yaml", "old")
	f.write("other/c.yaml", "old")
	w := New(f.path("limits"))
	look := func() bool {
		if w.look(time.Now()) {
			return true
		}
		return w.look(time.Now())
	}
	if look() {
		t.Error("a change is reported, but nothing has changed")
	}
	for _, change := range []struct {
		name    string
		make    func()
		changed bool
	}{
		{"written", func() { f.write("limits/a.yaml", "new") }, true},
		{"another file", func() { f.write("limits/b.yaml", "") }, true},
		{"a hidden one", func() { f.write("limits/.b.yaml", "x") }, false},
		{"one in a folder below", func() { f.write("limits/below/b.yaml", "x") }, false},
		{"renamed", func() { f.rename("limits/b.yaml", "limits/c.yaml") }, true},
		{"a link", func() { f.link("../other/c.yaml", "limits/d.yaml") }, true},
		{"the target of the link", func() { f.write("other/c.yaml", "new") }, true},
		{"removed", func() { f.remove("limits/a.yaml") }, true},
		{"the folder removed", func() { f.remove("limits") }, true},
		{"an empty folder", func() { f.must(os.Mkdir(f.path("limits"), 0o700)) }, true},
	} {
		change.make()
		if changed := look(); changed != change.changed {
			t.Errorf("%s: reported %t", change.name, changed)
		}
	}
	f.write("limits/a.yaml", "old")
	w.look(time.Now().Add(2 * racy))
	if a := w.files[0].files["a.yaml"]; a == nil || a.fresh {
		t.Errorf("a file that was written long ago is read at each look: %+v", a)
	}
}
