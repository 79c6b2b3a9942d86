package watch

import (
	"crypto/sha256"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// racy is how old a file's time must be for the next change to have another. FAT
// counts in steps of two seconds, and a server's clock may differ from ours; git
// has the same trouble with its index, and the word for it.
const racy = 3 * time.Second

// A content is what stands under a name.
type content struct {
	there bool
	sum   [sha256.Size]byte // when there
}

// A file is one of the files that are watched.
//
// Owned by the goroutine of Run.
type file struct {
	name    string
	stat    fs.FileInfo // as last looked at; nil: not there
	fresh   bool        // the content may change without the stat, as that of a folder always does
	content content
}

// look looks at the file, and reports whether its content is another than at the
// last look. Unless closely, what has the stat of the last time is not read. A file
// that cannot be read is one that is not there.
func (f *file) look(now time.Time, closely bool) (changed bool) {
	stat, err := os.Stat(f.name)
	if err != nil {
		stat = nil
	}
	if !closely && !f.fresh && same(stat, f.stat) {
		return false
	}
	f.stat = stat
	f.fresh = stat != nil && (stat.IsDir() || now.Sub(stat.ModTime()) < racy)
	before := f.content
	f.content = read(f.name, stat)
	return f.content != before
}

// same reports whether two stats are of one file that was not written between.
func same(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && a.Mode() == b.Mode()
}

// read sums the content up. What is no regular file is not opened: to open a pipe
// is to wait for whoever writes to it. The content of a folder is that of its files.
func read(name string, stat fs.FileInfo) (c content) {
	if stat != nil && stat.IsDir() {
		return readFolder(name)
	}
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
	c.there = true
	sum.Sum(c.sum[:0])
	return c
}

// readFolder sums up the names and contents of the files in a folder, but for hidden ones
// and what is in folders below.
func readFolder(name string) (c content) {
	list, err := os.ReadDir(name)
	if err != nil {
		return content{}
	}
	sum := sha256.New()
	for _, entry := range list {
		file := filepath.Join(name, entry.Name())
		stat, err := os.Stat(file) // of what a symbolic link leads to
		if err != nil || stat.IsDir() || strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		one := read(file, stat)
		sum.Write([]byte(entry.Name()))
		sum.Write([]byte{0})
		sum.Write(one.sum[:])
	}
	c.there = true
	sum.Sum(c.sum[:0])
	return c
}
