package control

import (
	"fmt"
	"io"

	"github.com/goccy/go-json"

	"weir/internal/service"
	"weir/loadgen/plan"
	"weir/loadgen/record"
)

// resultBytesMax bounds the file of a result. One of an hour has about a
// megabyte.
const resultBytesMax = 64 << 20

// A Merging adds up the results of generators that shared a schedule.
type Merging struct {
	Files   []string  // that runs wrote with -out
	Out     string    // where the sum goes as JSON; may be empty
	Report  string    // where it goes as a page; may be empty
	Summary io.Writer // gets the summary
}

// Run merges, and returns what the program should end with, as Runs.Run does.
// Files that are no results, or not of one schedule, end it with status 2.
func (m Merging) Run() error {
	var results []*record.Result
	for _, name := range m.Files {
		r, err := readResult(name)
		if err != nil {
			return &service.ExitError{Status: exitConfig, Err: err}
		}
		results = append(results, r)
	}
	sum, err := record.Merge(results...)
	if err != nil {
		return &service.ExitError{Status: exitConfig, Err: err}
	}
	// One of the files may be the one to be written: it has been read.
	out, err := createOutputs(m.Out, m.Report, "")
	if err != nil {
		return err
	}
	defer out.close()
	if err := out.write(sum, m.Summary); err != nil {
		return err
	}
	return ending(sum, false)
}

// readResult reads the result that a run has written.
func readResult(name string) (*record.Result, error) {
	text, err := plan.ReadFile("result", name, resultBytesMax)
	if err != nil {
		return nil, err
	}
	var kind struct {
		Schema int `json:"schema"`
	}
	if err := json.Unmarshal(text, &kind); err != nil {
		return nil, fmt.Errorf("read result %s: %w", name, err)
	}
	if kind.Schema == 0 {
		return nil, fmt.Errorf("read result %s: is not what loadgen run -out writes: it has no schema", name)
	}
	r := new(record.Result)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("read result %s: %w", name, err)
	}
	return r, nil
}
