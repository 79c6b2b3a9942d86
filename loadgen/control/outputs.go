package control

import (
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
type outputs struct{ json, page *os.File } // nil: not wanted

// createOutputs creates the files, before there is a result: afterwards would be
// late to learn that they cannot be. An empty name is a file that is not wanted.
func createOutputs(jsonName, pageName string) (o outputs, err error) {
	if o.json, err = create("OUT", jsonName); err != nil {
		return o, err
	}
	if o.page, err = create("REPORT", pageName); err != nil {
		o.close()
	}
	return o, err
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
	for _, f := range []*os.File{o.json, o.page} {
		if f != nil {
			_ = f.Close() // what was to be written has been synced
		}
	}
}

// write prints the summary and then writes the files: a disk that is full costs
// none of the other forms. The error says which files are not there.
func (o *outputs) write(r *record.Result, summary io.Writer) error {
	fmt.Fprint(summary, report.Summary(r))
	return errors.Join(writeAs(o.json, r, report.JSON), writeAs(o.page, r, report.HTML))
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
	// A pipe or a terminal cannot be synced, and need not be.
	if err := f.Sync(); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOTSUP) {
		return err
	}
	return nil
}
