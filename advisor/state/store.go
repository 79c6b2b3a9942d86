package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/program/ownfile"
	"weir/internal/program/watch"
)

// ErrInUse means that another process uses the same state file.
var ErrInUse = errors.New("is in use by another advisor")

// A Store is the files under one name, of which this process is the only owner.
//
// Safe for concurrent use: writing guards the files, mu the records that wait for them.
type Store struct {
	path string
	lock *os.File

	writing sync.Mutex
	journal journal
	after   uint64 // the next journal has the records after that

	mu      sync.Mutex
	waiting []byte // lines for the journal
	newest  uint64 // of them
	figures RecordCounts
}

// Recovered is what Open has read.
type Recovered struct {
	Checkpoint *Checkpoint // the last one; nil if there is none or it cannot be read
	Records    []Record    // those that follow the checkpoint, in order
	Remarks    []string    // what could not be read, and where it is now
}

// IsDiskFull reports whether an error of Save means that the disk, or the quota, is full. A
// later call may succeed.
func IsDiskFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// Open locks the files at path and reads them. A damaged checkpoint is renamed, with now in its
// new name. The error is of the folder or the file, or ErrInUse. If path is not a regular
// file nothing is created. The caller restores what was found and then calls Save, which
// shows whether the path can be written.
func Open(now time.Time, path string) (*Store, *Recovered, error) {
	if stat, err := os.Stat(path); err == nil && stat.IsDir() {
		return nil, nil, fmt.Errorf("open state %s: is a directory", path)
	} else if err == nil && !stat.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("open state %s: is not a regular file", path)
	}
	lock, err := ownfile.Open(path+".lock", os.O_WRONLY|os.O_CREATE, 0o600)
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
	s := &Store{path: path, lock: lock}
	found, err := s.read(now)
	if err != nil {
		lock.Close()
		return nil, nil, fmt.Errorf("open state: %w", err)
	}
	return s, found, nil
}

// read reads the checkpoint and the records that follow it.
func (s *Store) read(now time.Time) (*Recovered, error) {
	f := new(Recovered)
	data, err := watch.ReadFile(s.path, checkpointMax+headBytesMax)
	_, system := errors.AsType[unix.Errno](err) // others are about the file, which is set aside
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case system:
		return nil, fmt.Errorf("%s: %w", s.path, err)
	default:
		if err == nil {
			f.Checkpoint, err = decode(data)
		}
		if err != nil {
			aside, renamed := s.Archive(now, "corrupt")
			if renamed != nil {
				return nil, renamed
			}
			f.Checkpoint = nil
			f.Remarks = append(f.Remarks, fmt.Sprintf("%s %v, starting from scratch; it is kept as %s", s.path, err, aside))
		}
	}
	return f, s.readJournals(f)
}

// readJournals adds the records that follow f's checkpoint.
func (s *Store) readJournals(f *Recovered) error {
	have := uint64(0)
	if f.Checkpoint != nil {
		have = f.Checkpoint.Sequence
	}
	names, err := s.journals()
	if err != nil {
		return err
	}
	for _, name := range names {
		data, err := watch.ReadFile(name, journalMax)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		records, wrong := readJournal(data)
		if wrong != "" {
			f.Remarks = append(f.Remarks, fmt.Sprintf("%s is valid up to record %d: %s", name, len(records), wrong))
		}
		for _, r := range records {
			if r.Sequence > have {
				f.Records = append(f.Records, r)
				have = r.Sequence
			}
		}
	}
	s.after = have // until a checkpoint is saved, new records go to a further journal
	return nil
}

// Archive renames the checkpoint, which its owner no longer uses, and returns the new name. It
// contains word and now.
func (s *Store) Archive(now time.Time, word string) (name string, err error) {
	name = s.path + "." + word + "-" + now.UTC().Format("20060102T150405.000Z")
	return name, os.Rename(s.path, name)
}

// Append adds a record to those that Flush writes. Sequence numbers must ascend. It does not
// wait for the disk. Beyond pendingMax bytes records are dropped and counted.
func (s *Store) Append(r Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting)+len(r.Data) > pendingMax {
		s.figures.Lost++
		return
	}
	s.waiting, s.newest = appendRecord(s.waiting, r), r.Sequence
}

// Flush writes the appended records to the journal. After an error they are kept for the next
// call.
func (s *Store) Flush() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	lines, newest := s.waiting, s.newest
	s.waiting = nil
	s.mu.Unlock()
	if len(lines) == 0 {
		return nil
	}
	err := s.journal.write(s.journalName(s.after), lines, newest)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.figures.JournalErrors++
		s.waiting = append(lines, s.waiting...)
		return fmt.Errorf("write journal: %w", err)
	}
	s.figures.JournalBytes += uint64(len(lines))
	return nil
}

// Save replaces the checkpoint and removes the journals that it covers. After an error the old
// checkpoint is still there.
func (s *Store) Save(m Checkpoint) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	data, err := m.encode()
	if err == nil {
		err = replace(s.path, data)
	}
	if err != nil {
		return fmt.Errorf("save state %s: %w", s.path, err)
	}
	s.mu.Lock()
	if s.newest <= m.Sequence { // the checkpoint includes all that wait
		s.waiting = nil
	}
	s.mu.Unlock()
	if s.journal.last > m.Sequence { // some of the journal's records are newer
		return nil
	}
	s.journal.close()
	s.after = m.Sequence
	names, err := s.journals()
	if err != nil {
		return fmt.Errorf("look for old journals: %w", err)
	}
	for _, name := range names {
		_ = os.Remove(name) // the records of one that remains are skipped when it is read
	}
	return nil
}

// RecordCounts returns the counts of records.
func (s *Store) RecordCounts() RecordCounts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.figures
}

// Close writes the records that wait, and unlocks the files.
func (s *Store) Close() {
	_ = s.Flush() // the last attempt
	s.writing.Lock()
	defer s.writing.Unlock()
	s.journal.close()
	_ = s.lock.Close()
}

// journalName returns the name of the journal with the records after a sequence number.
func (s *Store) journalName(after uint64) string {
	return fmt.Sprintf("%s.journal-%020d", s.path, after)
}

// journals returns the names of the journals in the folder, the oldest first. Their numbers
// have equally many digits.
func (s *Store) journals() ([]string, error) {
	entries, err := os.ReadDir(filepath.Dir(s.path))
	if err != nil {
		return nil, err
	}
	var all []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), filepath.Base(s.path)+".journal-") {
			all = append(all, filepath.Join(filepath.Dir(s.path), e.Name()))
		}
	}
	slices.Sort(all)
	return all, nil
}

// replace replaces the content of a file. At any time either the old or the new content is
// complete.
func replace(name string, data []byte) error {
	temp := name + ".tmp" // one is enough, since path is locked
	f, err := ownfile.Open(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
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

// syncFolder syncs a folder, so that a rename survives a power failure.
func syncFolder(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
