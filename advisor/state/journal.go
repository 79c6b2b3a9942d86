package state

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"

	"weir/internal/program/ownfile"
)

const (
	// journalHead is the first line; it ends with the version.
	journalHead = "weir-advisor-journal 1"
	// pendingMax bounds the records that wait for the disk. Beyond it records are dropped
	// and counted, and the next checkpoint must be written soon.
	pendingMax = 4 << 20
	journalMax = 64 << 20 // bytes of a journal that are read
)

// A Record is one line of a journal.
type Record struct {
	Sequence uint64
	Data     []byte // without a newline
}

// appendRecord encodes a record as a line.
func appendRecord(out []byte, r Record) []byte {
	out = fmt.Appendf(out, "%08x %d ", checksum(r.Sequence, r.Data), r.Sequence)
	out = append(out, r.Data...)
	return append(out, '\n')
}

// readJournal returns the records of a journal up to the first incomplete one, and what
// is wrong there, if anything.
func readJournal(data []byte) (records []Record, wrong string) {
	head, rest, found := bytes.Cut(data, []byte{'\n'})
	if !found {
		return nil, "its first line is cut off"
	}
	if string(head) != journalHead {
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

// parseRecord parses a line without its newline. The record borrows from it.
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

// RecordCounts count records.
type RecordCounts struct {
	JournalBytes  uint64 // written since the start
	JournalErrors uint64 // attempts to write that failed
	Lost          uint64 // records dropped while the disk accepted no writes
}

// A journal is the file of records.
//
// Owned by its Store.
type journal struct {
	file *os.File // nil: created with the next line
	size int64
	last uint64 // last record
}

// write appends lines, up to record last, completely or not at all, and syncs them. It
// creates the named file if there is none.
func (j *journal) write(name string, lines []byte, last uint64) error {
	if j.file == nil {
		f, err := ownfile.Open(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return err
		}
		*j = journal{file: f}
		lines = append([]byte(journalHead+"\n"), lines...)
	}
	if _, err := j.file.Write(lines); err != nil {
		_ = j.file.Truncate(j.size) // shortening needs no space
		_, _ = j.file.Seek(j.size, io.SeekStart)
		if j.size == 0 { // the header is missing
			j.close()
		}
		return err
	}
	j.size += int64(len(lines))
	j.last = last
	return j.file.Sync()
}

// close closes the file.
func (j *journal) close() {
	if j.file != nil {
		_ = j.file.Close()
	}
	*j = journal{last: j.last}
}
