package state

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// ErrInUse says that another process keeps its state under the same name.
var ErrInUse = errors.New("is in use by another advisor")

// A Store is the files under one name, of which this process is the only owner.
//
// Safe for concurrent use: the journal has a lock of its own, saving another.
type Store struct {
	path    string
	lock    *os.File
	journal *journal
	ended   chan struct{} // when the journal's goroutine has

	saving sync.Mutex
}

// What Open found.
type Found struct {
	// Image is the last image, nil when there is none that can be read.
	Image *Image
	// Records are what the journals hold beyond the image, in order.
	Records []Record
	// Remarks are sentences about what could not be read, and where it is now.
	Remarks []string
}

// Open takes possession of the files at path and reads them. now names what is
// put aside. The error is one of the folder or of the file, or ErrInUse. The
// caller is expected to restore what was found, and then to Save: that starts
// the journal, and shows whether the path can be written.
func Open(now time.Time, path string) (*Store, *Found, error) {
	lock, err := os.OpenFile(path+".lock", os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("open state %s: %w", path, err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrInUse
		}
		return nil, nil, fmt.Errorf("open state %s: %w", path, err)
	}
	s := &Store{path: path, lock: lock, ended: make(chan struct{})}
	found, err := s.read(now)
	if err != nil {
		lock.Close()
		return nil, nil, fmt.Errorf("open state: %w", err)
	}
	s.journal = &journal{name: s.journalName, ring: make(chan struct{}, 1)}
	go func() {
		defer close(s.ended)
		s.journal.run()
	}()
	return s, found, nil
}

// read reads the image and what the journals have beyond it.
func (s *Store) read(now time.Time) (*Found, error) {
	f := new(Found)
	data, err := readFile(s.path, imageMax+headBytesMax)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil && !errors.Is(err, errTooLarge):
		return nil, err
	default:
		if err == nil {
			f.Image, err = decode(data)
		}
		if err != nil {
			aside, renamed := s.SetAside(now, "corrupt")
			if renamed != nil {
				return nil, renamed
			}
			f.Image = nil
			f.Remarks = append(f.Remarks, fmt.Sprintf("%s %v, starting afresh; it is kept as %s", s.path, err, aside))
		}
	}
	return f, s.readJournals(f)
}

// readJournals adds what the journals have beyond f's image.
func (s *Store) readJournals(f *Found) error {
	have := uint64(0)
	if f.Image != nil {
		have = f.Image.Sequence
	}
	names, err := s.journals()
	if err != nil {
		return err
	}
	for _, j := range names {
		data, err := readFile(j.name, journalMax)
		if err != nil {
			return err
		}
		records, wrong := readJournal(data)
		if wrong != "" {
			f.Remarks = append(f.Remarks, fmt.Sprintf("%s is believed up to record %d: %s", j.name, len(records), wrong))
		}
		for _, r := range records {
			if r.Sequence > have {
				f.Records = append(f.Records, r)
				have = r.Sequence
			}
		}
	}
	return nil
}

// SetAside renames the image, for when its owner goes on without it, and returns its
// new name, which has the word and the time in it.
func (s *Store) SetAside(now time.Time, word string) (name string, err error) {
	name = s.path + "." + word + "-" + now.UTC().Format("20060102T150405.000Z")
	return name, os.Rename(s.path, name)
}

// Append puts a record into the journal, behind the caller's back. Numbers
// ascend. It never waits for the disk.
func (s *Store) Append(r Record) { s.journal.add(r) }

// Rotate says that an image with all records up to sequence is about to be
// saved: those to come go to a new journal. It never waits for the disk.
func (s *Store) Rotate(sequence uint64) { s.journal.rotate(sequence) }

// Save replaces the image and removes the journals that it makes superfluous.
// On error the old image is still there.
func (s *Store) Save(m Image) error {
	s.saving.Lock()
	defer s.saving.Unlock()
	data, err := m.encode()
	if err == nil {
		err = replace(s.path, data)
	}
	if err != nil {
		return fmt.Errorf("save state %s: %w", s.path, err)
	}
	s.journal.saved(m.Sequence)
	names, err := s.journals()
	if err != nil {
		return fmt.Errorf("look for old journals: %w", err)
	}
	for _, j := range names {
		if j.after < m.Sequence {
			_ = os.Remove(j.name) // what stays is skipped when it is read
		}
	}
	return nil
}

// Figures says what became of records, and what keeps the journal from being
// written just now; nil when nothing does.
func (s *Store) Figures() (Figures, error) {
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	return s.journal.figures, s.journal.fault
}

// Close writes what waits, and gives the files up.
func (s *Store) Close() {
	s.journal.close()
	<-s.ended
	_ = s.lock.Close()
}

// journalName is the journal of the records after a number.
func (s *Store) journalName(after uint64) string {
	return fmt.Sprintf("%s.journal-%020d", s.path, after)
}

// A journalFile is a journal in the folder.
type journalFile struct {
	name  string
	after uint64
}

// journals are the journals in the folder, the oldest first.
func (s *Store) journals() ([]journalFile, error) {
	entries, err := os.ReadDir(filepath.Dir(s.path))
	if err != nil {
		return nil, err
	}
	var all []journalFile
	for _, e := range entries {
		number, ok := strings.CutPrefix(e.Name(), filepath.Base(s.path)+".journal-")
		if !ok {
			continue
		}
		if after, err := strconv.ParseUint(number, 10, 64); err == nil {
			all = append(all, journalFile{filepath.Join(filepath.Dir(s.path), e.Name()), after})
		}
	}
	slices.SortFunc(all, func(a, b journalFile) int { return strings.Compare(a.name, b.name) })
	return all, nil
}

var errTooLarge = errors.New("is too large for a state of the advisor")

// readFile reads a file of at most max bytes.
func readFile(name string, max int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, max+1))
	if err == nil && int64(len(data)) > max {
		err = errTooLarge
	}
	return data, err
}

// replace puts data under a name so that at any time either the old or the new
// content is there whole.
func replace(name string, data []byte) error {
	temp := name + ".tmp" // one is enough: the folder's name is locked
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(temp, name)
	}
	if err != nil {
		_ = os.Remove(temp)
		return err
	}
	return syncFolder(filepath.Dir(name))
}

// syncFolder makes a rename survive a loss of power.
func syncFolder(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
