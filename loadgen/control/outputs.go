package control

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"weir/internal/service"
	"weir/loadgen/record"
	"weir/loadgen/report"
)

// outputs are the files that a result goes to.
type outputs struct {
	json, page, outcomes *os.File // nil: not wanted
	lines                *bufio.Writer
}

// createOutputs creates the files, before there is a result: afterwards would be
// late to learn that they cannot be. An empty name is a file that is not wanted.
func createOutputs(jsonName, pageName, outcomesName string) (o outputs, err error) {
	var errs [3]error
	o.json, errs[0] = create("OUT", jsonName)
	o.page, errs[1] = create("REPORT", pageName)
	o.outcomes, errs[2] = create("OUTCOMES", outcomesName)
	for _, err := range errs {
		if err != nil {
			o.close()
			return o, err
		}
	}
	if o.outcomes != nil {
		o.lines = bufio.NewWriter(o.outcomes)
		_, _ = o.lines.WriteString(record.LineHead) // Flush tells of errors
	}
	return o, nil
}

func create(setting, name string) (*os.File, error) {
	if name == "" {
		return nil, nil
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, &service.SettingError{Name: setting, Value: name, Problem: "cannot be written: " + err.Error()}
	}
	return f, nil
}

func (o *outputs) close() {
	for _, f := range []*os.File{o.json, o.page, o.outcomes} {
		if f != nil {
			_ = f.Close() // what was to be written has been synced
		}
	}
}

// write prints the summary and then writes the files: a disk that is full costs
// none of the other forms. The error says which files are not there.
func (o *outputs) write(r *record.Result, summary io.Writer) error {
	fmt.Fprint(summary, report.Summary(r))
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
		return err // it names the file
	}
	return toDisk(f)
}

// toDisk waits until f is on the disk. A pipe or a terminal cannot be synced, and
// need not be.
func toDisk(f *os.File) error {
	if err := f.Sync(); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOTSUP) {
		return err
	}
	return nil
}
