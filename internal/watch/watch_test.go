package watch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// waitMax is how long a test waits for what must happen in the end.
const waitMax = 2 * time.Minute

// A folder is a place for files, and one of its files that is watched.
type folder struct {
	t    *testing.T
	root string
	name string // of the file, below root

	mu   sync.Mutex
	seen string // what the file held when a change was told last
}

func (f *folder) path(name string) string { return filepath.Join(f.root, name) }

// holds is the file's content.
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

// told waits until a change was told since which the file holds text.
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
			f.t.Fatalf("waited %v to be told that the file holds %q; told last when it held %q, and now it is %q", waitMax, text, seen, f.holds())
		}
	}
}

// kubernetes lays the file out as the kubelet does: the name is a link through
// ..data, which is a link to a folder with a date, and is swapped.
func (f *folder) kubernetes(generation int, text string) {
	f.t.Helper()
	dated := fmt.Sprintf("..2026_01_%02d", generation)
	f.write(dated+"/rules.yaml", text)
	f.link(dated, "..data_tmp")
	f.rename("..data_tmp", "..data")
	f.remove(fmt.Sprintf("..2026_01_%02d", generation-1))
}

// Whatever way the content changes, it is told; with notices, and without.
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
		{"not there at the start", "rules.yaml",
			func(*folder) {},
			func(f *folder) { f.write("rules.yaml", "new") }},
		{"nor its folder", "a/b/rules.yaml",
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
		{"a link that gets its target later", "rules.yaml",
			func(f *folder) { f.link("real.yaml", "rules.yaml") },
			func(f *folder) { f.write("real.yaml", "new") }},
		{"in a folder where much happens", "rules.yaml",
			func(f *folder) { f.write("rules.yaml", "old") },
			func(f *folder) {
				f.write("rules.yaml", "new")
				for i := range 500 {
					f.write(fmt.Sprint("log", i%7), strings.Repeat("x", i))
				}
			}},
	} {
		for _, notices := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, notices %t", test.name, notices), func(t *testing.T) {
				t.Parallel()
				f := &folder{t: t, root: t.TempDir(), name: test.file}
				test.before(f)
				run(t, f, notices)
				test.after(f)
				f.told("new")
			})
		}
	}
}

// run starts a watcher for the rest of the test.
func run(t *testing.T, f *folder, notices bool) {
	t.Helper()
	other := f.path("other")
	w := New(f.path(f.name), other)
	if !notices {
		w.notices.Close()
		w.notices, w.pause = nil, 5*time.Millisecond
	}
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

// With notices nothing waits for the next look.
func TestNotices(t *testing.T) {
	f := &folder{t: t, root: t.TempDir(), name: "rules.yaml"}
	w := New(f.path(f.name))
	if w.notices == nil {
		t.Fatal("this system has no notices")
	}
	w.pause = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	told := make(chan string)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Run(ctx, func() {
			select {
			case told <- f.holds():
			case <-ctx.Done():
			}
		})
	}()
	for _, text := range []string{"one", "two"} {
		f.write("tmp", text)
		f.rename("tmp", f.name)
		for seen := ""; seen != text; {
			select {
			case seen = <-told:
			case <-time.After(waitMax):
				t.Fatalf("waited %v to be told of %q", waitMax, text)
			}
		}
	}
	cancel()
	<-ended
}

// A look tells other contents, and nothing else.
func TestLook(t *testing.T) {
	f := &folder{t: t, root: t.TempDir(), name: "rules.yaml"}
	old := time.Now().Add(-time.Hour)
	age := func() { f.must(os.Chtimes(f.path("rules.yaml"), old, old)) }
	w := &file{name: f.path("rules.yaml")}
	for _, test := range []struct {
		name    string
		do      func()
		closely bool
		changed bool
	}{
		{"not there", func() {}, true, false},
		{"there", func() { f.write("rules.yaml", "one") }, false, true},
		{"as before", func() {}, true, false},
		{"written with what it held", func() { f.write("rules.yaml", "one") }, true, false},
		{"swapped for an equal one", func() { f.write("tmp", "one"); f.rename("tmp", "rules.yaml") }, false, false},
		{"another length", func() { f.write("rules.yaml", "three") }, false, true},
		{"another age", age, false, false},
		{"old, and its time is set back after a change: needs a closer look", func() { f.write("rules.yaml", "seven"); age() }, false, false},
		{"a closer look", func() {}, true, true},
		{"may not be read by others", func() { f.must(os.Chmod(f.path("rules.yaml"), 0o600)) }, true, false},
		{"emptied", func() { f.write("rules.yaml", "") }, false, true},
		{"gone", func() { f.remove("rules.yaml") }, false, true},
		{"gone still", func() {}, true, false},
		{"a folder", func() { f.must(os.Mkdir(f.path("rules.yaml"), 0o700)) }, true, true},
		{"a file again, fresh", func() { f.remove("rules.yaml"); f.write("rules.yaml", "one") }, false, true},
	} {
		test.do()
		if changed := w.look(time.Now(), test.closely); changed != test.changed {
			t.Errorf("%s: told a change %t, want %t", test.name, changed, test.changed)
		}
	}
	if !w.fresh {
		t.Error("a file just written is not read again at the next look")
	}
	if w.look(time.Now().Add(racy), false); w.fresh || w.stat == nil {
		t.Error("a file that was written long ago is read at each look")
	}
}

// Of a folder everything in it is told, but what is hidden.
func TestFolder(t *testing.T) {
	f := &folder{t: t, root: t.TempDir()}
	f.write("limits/a.yaml", "old")
	f.write("other/c.yaml", "old")
	w := New(f.path("limits"))
	if w.look(true) {
		t.Error("nothing has changed, and something is told")
	}
	for _, change := range []struct {
		name string
		make func()
		told bool
	}{
		{"written", func() { f.write("limits/a.yaml", "new") }, true},
		{"one more", func() { f.write("limits/b.yaml", "") }, true},
		{"hidden", func() { f.write("limits/.b.yaml", "x") }, false},
		{"in a folder below", func() { f.write("limits/below/b.yaml", "x") }, false},
		{"renamed", func() { f.rename("limits/b.yaml", "limits/c.yaml") }, true},
		{"a link", func() { f.link("../other/c.yaml", "limits/d.yaml") }, true},
		{"what it leads to", func() { f.write("other/c.yaml", "new") }, true},
		{"removed", func() { f.remove("limits/a.yaml") }, true},
		{"gone", func() { f.remove("limits") }, true},
		{"back, and empty", func() { f.must(os.Mkdir(f.path("limits"), 0o700)) }, true},
	} {
		change.make()
		if told := w.look(false); told != change.told {
			t.Errorf("%s: told %t", change.name, told)
		}
	}
}
