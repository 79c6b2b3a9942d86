package state

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"
)

const (
	journalWord = "weir-advisor-journal"
	// pendingMax bounds the records that wait for the disk; beyond, records are
	// counted as lost, and the next image is to be written soon.
	pendingMax = 4 << 20
	// journalMax bounds what is read of a journal.
	journalMax = 64 << 20
	// syncPause is between two syncs: what a loss of power may cost.
	syncPause = time.Second
)

// A Record is one line of a journal.
type Record struct {
	Sequence uint64
	Data     []byte // without a newline
}

// appendRecord writes a record as a line.
func appendRecord(out []byte, r Record) []byte {
	out = fmt.Appendf(out, "%08x %d ", checksum(r.Sequence, r.Data), r.Sequence)
	out = append(out, r.Data...)
	return append(out, '\n')
}

// readJournal returns the records of a journal up to the first that is not
// whole, and what was wrong there; empty when nothing was.
func readJournal(data []byte) (records []Record, wrong string) {
	head, rest, found := bytes.Cut(data, []byte{'\n'})
	if !found {
		return nil, "its first line is cut off"
	}
	if string(head) != journalHead() {
		return nil, "it is not a journal of this version"
	}
	for len(rest) > 0 {
		line, next, whole := bytes.Cut(rest, []byte{'\n'})
		if !whole {
			return records, "the last line is cut off"
		}
		r, ok := parseRecord(line)
		if !ok {
			return records, fmt.Sprintf("line %d is damaged", len(records)+2)
		}
		records = append(records, r)
		rest = next
	}
	return records, ""
}

func journalHead() string { return journalWord + " " + strconv.Itoa(version) }

// parseRecord reads a line without its newline; the record borrows from it.
func parseRecord(line []byte) (r Record, ok bool) {
	sum, rest, ok1 := bytes.Cut(line, []byte{' '})
	number, data, ok2 := bytes.Cut(rest, []byte{' '})
	if !ok1 || !ok2 {
		return r, false
	}
	want, err1 := strconv.ParseUint(string(sum), 16, 32)
	sequence, err2 := strconv.ParseUint(string(number), 10, 64)
	if err1 != nil || err2 != nil || checksum(sequence, data) != uint32(want) {
		return r, false
	}
	return Record{Sequence: sequence, Data: data}, true
}

// A journal writes records behind the back of who appends them.
//
// Safe for concurrent use: mu guards what waits and the figures; the files are
// its goroutine's.
type journal struct {
	name func(after uint64) string // of the file that begins after a record
	ring chan struct{}             // that something waits; has one place

	mu      sync.Mutex
	waiting []segment // each but the first begins a new file
	bytes   int       // of waiting
	closing bool
	figures Figures
	fault   error  // of the last attempt to write
	safe    uint64 // the last record that an image on the disk has
}

// A segment is lines for one file.
type segment struct {
	begin bool // of a new file
	after uint64
	lines []byte
}

// Figures count what became of records.
type Figures struct {
	JournalBytes  uint64 // written since the start
	JournalErrors uint64 // attempts to write that failed
	Lost          uint64 // records that found no room while the disk took none
}

// add takes on a record; it never waits for the disk.
func (j *journal) add(r Record) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.waiting) == 0 {
		j.waiting = append(j.waiting, segment{})
	}
	if j.bytes+len(r.Data) > pendingMax {
		j.figures.Lost++
		return
	}
	last := &j.waiting[len(j.waiting)-1]
	before := len(last.lines)
	last.lines = appendRecord(last.lines, r)
	j.bytes += len(last.lines) - before
	j.wake()
}

// rotate lets the records to come go to a new file, as an image has all before.
// What still waits is kept until that image is saved. While the disk takes neither,
// at most one new file waits.
func (j *journal) rotate(after uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.waiting) > 1 { // the image of the file that waits was not saved
		first := &j.waiting[0]
		for _, s := range j.waiting[1:] {
			first.lines = append(first.lines, s.lines...)
		}
		j.waiting = j.waiting[:1]
	}
	j.waiting = append(j.waiting, segment{begin: true, after: after})
	j.wake()
}

// saved says that an image with all records up to a number is on the disk.
func (j *journal) saved(sequence uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.safe = max(j.safe, sequence)
	j.trim()
}

// trim lets go of what an image has.
func (j *journal) trim() {
	for i := len(j.waiting) - 1; i > 0; i-- {
		if s := j.waiting[i]; s.begin && s.after <= j.safe {
			j.waiting = j.waiting[i:]
			break
		}
	}
	j.bytes = 0
	for _, s := range j.waiting {
		j.bytes += len(s.lines)
	}
}

func (j *journal) wake() {
	select {
	case j.ring <- struct{}{}:
	default:
	}
}

// run writes what waits until close, and what waits then.
func (j *journal) run() {
	var w writer
	defer w.close()
	tick := time.NewTicker(syncPause)
	defer tick.Stop()
	for {
		select {
		case <-j.ring:
			if j.fault != nil {
				break // it is tried again with the tick
			}
			j.flush(&w)
		case <-tick.C:
			j.flush(&w)
			w.sync()
		}
		j.mu.Lock()
		done := j.closing
		j.mu.Unlock()
		if done {
			j.flush(&w)
			w.sync()
			return
		}
	}
}

func (j *journal) close() {
	j.mu.Lock()
	j.closing = true
	j.mu.Unlock()
	j.wake()
}

// flush writes what waits. What cannot be written waits on.
func (j *journal) flush(w *writer) {
	j.mu.Lock()
	work := j.waiting
	j.waiting, j.bytes = nil, 0
	j.mu.Unlock()
	var err error
	written := 0
	for len(work) > 0 && err == nil {
		var n int
		if n, err = j.write(w, &work[0]); err == nil {
			written += n
			work = work[1:]
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.figures.JournalBytes += uint64(written)
	j.fault = err
	if err == nil {
		return
	}
	j.figures.JournalErrors++
	j.putBack(work)
}

// putBack puts work before what came meanwhile.
func (j *journal) putBack(work []segment) {
	rest := j.waiting
	if len(rest) > 0 && !rest[0].begin {
		last := &work[len(work)-1]
		last.lines = append(last.lines, rest[0].lines...)
		rest = rest[1:]
	}
	j.waiting = append(work, rest...)
	j.trim()
}

// write writes a segment whole, or not at all.
func (j *journal) write(w *writer, s *segment) (n int, err error) {
	if s.begin {
		if err := w.begin(j.name(s.after)); err != nil {
			return 0, err
		}
		s.begin = false
	}
	if len(s.lines) == 0 {
		return 0, nil
	}
	return len(s.lines), w.write(s.lines)
}

// A writer is the file that records go to.
//
// Owned by the journal's goroutine.
type writer struct {
	file  *os.File
	size  int64
	dirty bool
}

// begin goes on in a new file.
func (w *writer) begin(name string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	w.sync()
	w.close()
	*w = writer{file: f}
	return w.write([]byte(journalHead() + "\n"))
}

// write appends lines; a part that was written is taken back.
func (w *writer) write(lines []byte) error {
	if w.file == nil {
		return fmt.Errorf("no journal is open")
	}
	if _, err := w.file.Write(lines); err != nil {
		_ = w.file.Truncate(w.size) // making it shorter needs no room
		_, _ = w.file.Seek(w.size, io.SeekStart)
		return err
	}
	w.size += int64(len(lines))
	w.dirty = true
	return nil
}

func (w *writer) sync() {
	if w.dirty && w.file.Sync() == nil {
		w.dirty = false
	}
}

func (w *writer) close() {
	if w.file != nil {
		_ = w.file.Close()
	}
}
