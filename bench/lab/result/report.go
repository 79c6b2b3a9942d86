package result

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// A Report is what an experiment says: headings, notes and tables, which are printed as they come
// and become its record, and progress, which is only printed. The zero value prints nothing.
//
// Owned by one goroutine.
type Report struct {
	Out   io.Writer // nil: nothing is printed
	began time.Time
	rec   Record
}

// NewReport starts the report of an experiment.
func NewReport(now time.Time, out io.Writer, experiment string, args []string) *Report {
	command := strings.Join(append([]string{"bin/bench", experiment}, args...), " ")
	return &Report{Out: out, began: now,
		rec: Record{Experiment: experiment, Command: command, Commit: Commit(), Machine: ThisMachine()}}
}

// Write prints progress. It implements io.Writer.
func (r *Report) Write(b []byte) (int, error) {
	if r.Out == nil {
		return len(b), nil
	}
	return r.Out.Write(b)
}

// Heading begins a section.
func (r *Report) Heading(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.rec.Sections = append(r.rec.Sections, Section{Heading: text})
	fmt.Fprintf(r, "\n### %s\n", text)
}

// Note adds a paragraph to the section.
func (r *Report) Note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s := r.section()
	s.Notes = append(s.Notes, text)
	fmt.Fprintf(r, "\n%s\n", text)
}

// Table adds a table to the section.
func (r *Report) Table(t *Table) {
	s := r.section()
	s.Tables = append(s.Tables, *t)
	fmt.Fprintf(r, "\n%v", t)
}

// Head begins a table whose rows are added and printed by Row.
func (r *Report) Head(columns ...string) { r.Table(&Table{Columns: columns}) }

// Row adds a row to the last table.
func (r *Report) Row(cells ...string) {
	tables := r.section().Tables
	last := &tables[len(tables)-1]
	last.Rows = append(last.Rows, cells)
	writeRow(r, cells)
}

// Add is Row with formatted cells, separated by |.
func (r *Report) Add(format string, args ...any) { r.Row(split(fmt.Sprintf(format, args...))...) }

// section returns the last section. The first has no heading unless the report begins with one.
func (r *Report) section() *Section {
	if len(r.rec.Sections) == 0 {
		r.rec.Sections = make([]Section, 1)
	}
	return &r.rec.Sections[len(r.rec.Sections)-1]
}

// Attach adds the names of files that belong to the record.
func (r *Report) Attach(files ...string) { r.rec.Files = append(r.rec.Files, files...) }

// ErrNotRecorded is wrapped by the error of an experiment whose figures must not replace those of
// an earlier run, for example because a program that it needs is not installed.
var ErrNotRecorded = errors.New("no record is kept")

// Record completes the record; fault is the error of the experiment, or nil.
func (r *Report) Record(now time.Time, fault error) *Record {
	r.rec.Date = now.UTC().Truncate(time.Second)
	r.rec.Took = now.Sub(r.began).Round(100 * time.Millisecond).Seconds()
	if fault != nil {
		r.rec.Fault = fault.Error()
	}
	return &r.rec
}
