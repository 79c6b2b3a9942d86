package state

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
)

const (
	journalWord = "weir-advisor-journal"
	// pendingMax bounds the records that wait for the disk; beyond, records are
	// counted as lost, and the next image is to be written soon.
	pendingMax = 4 << 20
	// journalMax bounds what is read of a journal.
	journalMax = 64 << 20
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

// Figures count what became of records.
type Figures struct {
	JournalBytes  uint64 // written since the start
	JournalErrors uint64 // attempts to write that failed
	Lost          uint64 // records that found no room while the disk took none
}

// A journal is the file that records go to.
//
// Owned by its Store.
type journal struct {
	file *os.File // nil: it begins with the next line
	size int64
	last uint64 // record
}

// write appends lines, up to record last, whole or not at all, and has the disk take
// them. It begins the file called name when there is none.
func (j *journal) write(name string, lines []byte, last uint64) error {
	if j.file == nil {
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return err
		}
		*j = journal{file: f}
		lines = append([]byte(journalHead()+"\n"), lines...)
	}
	if _, err := j.file.Write(lines); err != nil {
		_ = j.file.Truncate(j.size) // making it shorter needs no room
		_, _ = j.file.Seek(j.size, io.SeekStart)
		if j.size == 0 { // it lacks its head
			j.close()
		}
		return err
	}
	j.size += int64(len(lines))
	j.last = last
	return j.file.Sync()
}

// close ends the file.
func (j *journal) close() {
	if j.file != nil {
		_ = j.file.Close()
	}
	*j = journal{last: j.last}
}
