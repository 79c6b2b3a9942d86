package control

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"weir/internal/program/ownfile"
	"weir/internal/program/service"
	"weir/loadgen/record"
	"weir/loadgen/report"
)

// Outputs are the files that a result is written to. An empty name means that the file is
// not wanted.
type Outputs struct {
	Out      string    // file that gets it as JSON
	Report   string    // file that gets it as a page
	Outcomes string    // file that gets a line for each request
	Summary  io.Writer // gets the summary
}

// outputs are the opened files.
type outputs struct {
	summary              io.Writer
	json, page, outcomes *os.File // nil: not wanted
	lines                *bufio.Writer
}

// create creates the files before there is a result, so that errors are found in time.
func (to Outputs) create() (outputs, error) {
	o := outputs{summary: to.Summary}
	for _, f := range []struct {
		file          **os.File
		setting, name string
	}{{&o.json, "OUT", to.Out}, {&o.page, "REPORT", to.Report}, {&o.outcomes, "OUTCOMES", to.Outcomes}} {
		if f.name == "" {
			continue
		}
		var err error
		if *f.file, err = ownfile.Open(f.name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666); err != nil {
			o.close()
			return o, &service.SettingError{Name: f.setting, Value: f.name, Problem: "cannot be written: " + err.Error()}
		}
	}
	if o.outcomes != nil {
		o.lines = bufio.NewWriter(o.outcomes)
		_, _ = o.lines.WriteString(record.OutcomesHeader) // Flush returns the error
	}
	return o, nil
}

func (o *outputs) close() {
	for _, f := range []*os.File{o.json, o.page, o.outcomes} {
		if f != nil {
			_ = f.Close() // the content has been synced
		}
	}
}

// write prints the summary and then writes the files. If the disk is full the other forms
// are still written. The error names the files that are missing.
func (o *outputs) write(r *record.Result) error {
	fmt.Fprint(o.summary, report.Summary(r))
	err := errors.Join(writeAs(o.json, r, report.JSON), writeAs(o.page, r, report.HTML))
	if o.lines != nil {
		err = errors.Join(err, o.lines.Flush(), toDisk(o.outcomes))
	}
	return err
}

// writeAs writes one form of the result into its file.
func writeAs(f *os.File, r *record.Result, form func(*record.Result) ([]byte, error)) error {
	if f == nil {
		return nil
	}
	b, err := form(r)
	if err != nil {
		return err
	}
	if _, err := f.Write(b); err != nil {
		return err // it contains the file name
	}
	return toDisk(f)
}

// toDisk waits until f is on disk. A pipe or a terminal cannot be synced and need not be.
func toDisk(f *os.File) error {
	if err := f.Sync(); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOTSUP) {
		return err
	}
	return nil
}
