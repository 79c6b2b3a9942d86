package result

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"time"

	"weir/bench/report"
)

// A Recorder passes on the output of an experiment and turns it into a Record.
//
// Owned by one goroutine.
type Recorder struct {
	out   io.Writer
	text  bytes.Buffer
	began time.Time
	rec   Record
}

// NewRecorder starts the record of an experiment that prints to out.
func NewRecorder(now time.Time, out io.Writer, experiment string, args []string) *Recorder {
	command := strings.Join(append([]string{"bin/bench", experiment}, args...), " ")
	return &Recorder{out: out, began: now, rec: Record{Experiment: experiment, Command: command, Commit: Commit(), Machine: ThisMachine()}}
}

// Write implements io.Writer.
func (r *Recorder) Write(b []byte) (int, error) {
	r.text.Write(b)
	return r.out.Write(b)
}

// Keep adds the names of files that belong to the record, if out is a Recorder.
func Keep(out io.Writer, files ...string) {
	if r, kept := out.(*Recorder); kept {
		r.rec.Files = append(r.rec.Files, files...)
	}
}

// ErrNotKept is wrapped by the error of an experiment whose figures must not replace those of
// an earlier run, for example because a program that it needs is not installed.
var ErrNotKept = errors.New("no record is kept")

// Record completes the record; fault is the error of the experiment, or nil.
func (r *Recorder) Record(now time.Time, fault error) *Record {
	r.rec.Date, r.rec.Took = now.UTC().Truncate(time.Second), now.Sub(r.began).Round(100*time.Millisecond).Seconds()
	r.rec.Sections = report.Parse(r.text.String())
	if fault != nil {
		r.rec.Fault = fault.Error()
	}
	return &r.rec
}
