package control

import (
	"fmt"

	"github.com/goccy/go-json"

	"weir/internal/service"
	"weir/loadgen/plan"
	"weir/loadgen/record"
)

// resultBytesMax bounds the file of a result. The result of an hour has about one megabyte.
const resultBytesMax = 64 << 20

// Merge merges the results of generators that shared a schedule, which runs wrote with
// -out. It returns the error that the program should end with, like Runs.Run. Files that
// are not results, or not of one schedule, end it with status 2.
func Merge(files []string, to Outputs) error {
	var results []*record.Result
	for _, name := range files {
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
	// The output may be one of the input files, which have been read.
	out, err := to.create()
	if err != nil {
		return err
	}
	defer out.close()
	if err := out.write(sum); err != nil {
		return err
	}
	return ending(sum, false)
}

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
		return nil, fmt.Errorf("read result %s: was not written by loadgen run -out: it has no schema", name)
	}
	r := new(record.Result)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("read result %s: %w", name, err)
	}
	return r, nil
}
