package result

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
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
	return &Recorder{out: out, began: now, rec: Record{Experiment: experiment, Command: command, Commit: Commit(),
		Machine: ThisMachine()}}
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
	r.rec.Sections = Parse(r.text.String())
	if fault != nil {
		r.rec.Fault = fault.Error()
	}
	return &r.rec
}

// A Machine describes the machine of a measurement.
type Machine struct {
	Processor string `json:"processor"`
	Cores     int    `json:"cores"`
	Kernel    string `json:"kernel"`
	Go        string `json:"go"`
}

// String returns the description for a page.
func (m Machine) String() string {
	return fmt.Sprintf("%s, %d cores, Linux %s, %s", m.Processor, m.Cores, m.Kernel, m.Go)
}

// ThisMachine describes the current machine.
func ThisMachine() Machine {
	m := Machine{Processor: runtime.GOARCH, Cores: runtime.NumCPU(), Kernel: "unknown", Go: runtime.Version()}
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if name, ok := strings.CutPrefix(line, "model name"); ok {
				m.Processor = strings.TrimSpace(strings.TrimLeft(name, "\t :"))
				break
			}
		}
	}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = string(bytes.TrimSpace(release))
	}
	return m
}

// Commit returns the commit of the repository in the current folder, or "unknown". + marks
// uncommitted changes other than those of results and of BENCHMARKS.md.
func Commit() string {
	head, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	commit := string(bytes.TrimSpace(head))
	changes, err := exec.Command("git", "status", "--porcelain", "--", ".", ":!bench/results", ":!BENCHMARKS.md").Output()
	if err != nil || len(bytes.TrimSpace(changes)) > 0 {
		commit += "+"
	}
	return commit
}
