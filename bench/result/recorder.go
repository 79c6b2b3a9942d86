package result

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"time"

	"weir/bench/report"
)

// A Recorder passes on what an experiment prints, and keeps it.
//
// Owned by one goroutine.
type Recorder struct {
	out   io.Writer
	text  bytes.Buffer
	began time.Time
	rec   Record
}

// NewRecorder begins the record of an experiment that prints to out.
func NewRecorder(now time.Time, out io.Writer, experiment string, args []string) *Recorder {
	command := strings.Join(append([]string{"bin/bench", experiment}, args...), " ")
	return &Recorder{out: out, began: now, rec: Record{Experiment: experiment, Command: command, Commit: Commit(), Machine: ThisMachine()}}
}

// Write takes in output.
func (r *Recorder) Write(b []byte) (int, error) {
	r.text.Write(b)
	return r.out.Write(b)
}

// Keep names a file beside the record that belongs to it.
func (r *Recorder) Keep(file string) { r.rec.Files = append(r.rec.Files, file) }

// ErrNotKept is among the errors of an experiment whose figures are not to take
// the place of those of an earlier run: what it takes is not there.
var ErrNotKept = errors.New("no record is kept")

// Record ends the record; fault is what the experiment ended with, or nil.
func (r *Recorder) Record(now time.Time, fault error) *Record {
	r.rec.Date, r.rec.Took = now.UTC().Truncate(time.Second), now.Sub(r.began).Round(100*time.Millisecond).Seconds()
	r.rec.Sections = report.Parse(r.text.String())
	if fault != nil {
		r.rec.Fault = fault.Error()
	}
	return &r.rec
}
