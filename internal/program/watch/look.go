package watch

import (
	"crypto/sha256"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// racy is the age from which the time of a file's last change differs from that of any
// later one. FAT counts in steps of two seconds, and a file server's clock may differ from
// ours. Git calls such index entries racy.
const racy = 3 * time.Second

// A content identifies what a file or folder contains. It is zero if there is none.
type content [sha256.Size]byte

// A file is one of the files that are watched.
//
// Owned by the goroutine of Run.
type file struct {
	name    string
	stat    fs.FileInfo // at the last look; nil: it did not exist
	fresh   bool        // the content may change without the stat; always true for folders
	content content
	files   map[string]*file // of a folder, by name
}

// look reports whether the content has changed since the last look. A file with an unchanged
// stat is not read unless it is fresh. A file that cannot be read counts as missing.
func (f *file) look(now time.Time) (changed bool) {
	stat, err := os.Stat(f.name)
	if err != nil {
		stat = nil
	}
	return f.compare(now, stat)
}

// compare is look with the stat of now.
func (f *file) compare(now time.Time, stat fs.FileInfo) (changed bool) {
	if !f.fresh && same(stat, f.stat) {
		return false
	}
	f.stat = stat
	f.fresh = stat != nil && (stat.IsDir() || now.Sub(touched(stat)) < racy)
	before := f.content
	if stat != nil && stat.IsDir() {
		f.content = f.readFolder(now)
	} else {
		f.content = read(f.name, stat)
	}
	return f.content != before
}

// same reports whether two stats are of one file that was not changed in between.
func same(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && ctime(a).Equal(ctime(b))
}

// touched returns when the file or its attributes were changed last.
func touched(stat fs.FileInfo) time.Time {
	if at := ctime(stat); at.After(stat.ModTime()) {
		return at
	}
	return stat.ModTime()
}

// ctime returns when the system changed the file or its attributes last. Unlike the
// modification time it cannot be set, but some file systems in user space do not keep it.
func ctime(stat fs.FileInfo) time.Time {
	at := stat.Sys().(*syscall.Stat_t).Ctim
	return time.Unix(at.Unix())
}

// read computes the content of a file. Only regular files are opened: opening a pipe without a
// writer would block.
func read(name string, stat fs.FileInfo) content {
	if stat == nil || !stat.Mode().IsRegular() {
		return content{}
	}
	f, err := os.Open(name)
	if err != nil {
		return content{}
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return content{}
	}
	return content(sum.Sum(nil))
}

// readFolder computes the content of a folder from the names and contents of its files,
// except hidden ones. It does not descend into other folders.
func (f *file) readFolder(now time.Time) content {
	list, err := os.ReadDir(f.name)
	if err != nil {
		return content{}
	}
	before := f.files
	f.files = make(map[string]*file, len(list))
	sum := sha256.New()
	for _, entry := range list {
		name := entry.Name()
		path := filepath.Join(f.name, name)
		stat, err := os.Stat(path) // follows symbolic links
		if err != nil || stat.IsDir() || strings.HasPrefix(name, ".") {
			continue
		}
		one := before[name]
		if one == nil {
			one = &file{name: path}
		}
		one.compare(now, stat)
		f.files[name] = one
		sum.Write([]byte(name))
		sum.Write([]byte{0})
		sum.Write(one.content[:])
	}
	return content(sum.Sum(nil))
}
