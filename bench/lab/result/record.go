// Package result keeps the results of experiments: statistics, tables, verdicts on expectations.
// A report prints them and becomes a record with commit, machine and date; records become files,
// the page BENCHMARKS.md, and the reference for the next run.
package result

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-json"
)

// A Record holds the results of one experiment.
type Record struct {
	Experiment string    `json:"experiment"`
	Command    string    `json:"command"` // that was run
	Commit     string    `json:"commit"`  // of the repository; + marks uncommitted changes
	Date       time.Time `json:"date"`    // of the end
	Took       float64   `json:"took"`    // seconds
	Machine    Machine   `json:"machine"`
	Fault      string    `json:"fault,omitempty"` // the error of the experiment
	Sections   []Section `json:"sections"`
	Files      []string  `json:"files,omitempty"` // plots and pages beside the record
}

// Path returns the path of an experiment's record in a folder.
func Path(dir, experiment string) string { return filepath.Join(dir, experiment+".json") }

// Save writes the record atomically.
func (r *Record) Save(dir string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err == nil {
		err = Create(Path(dir, r.Experiment), append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write the record of %s: %w", r.Experiment, err)
	}
	return nil
}

// Load reads the record of an experiment; nil if there is none.
func Load(dir, experiment string) (*Record, error) {
	text, err := os.ReadFile(Path(dir, experiment))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the record of %s: %w", experiment, err)
	}
	r := new(Record)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("read the record of %s: %s: %w", experiment, Path(dir, experiment), err)
	}
	return r, nil
}

// LoadAll reads all records of a folder, sorted by name.
func LoadAll(dir string) ([]*Record, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var all []*Record
	for _, name := range names {
		r, err := Load(dir, strings.TrimSuffix(filepath.Base(name), ".json"))
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// markers returns the lines that enclose the results of an experiment on a page.
func markers(experiment string) (begin, end string) {
	return "<!-- bench " + experiment + " -->\n", "<!-- /bench " + experiment + " -->\n"
}

// Refresh returns a page of Markdown in which the text between the experiment's markers is
// replaced by the record. It is an error if the page has no such markers.
func (r *Record) Refresh(page []byte) ([]byte, error) {
	begin, end := markers(r.Experiment)
	before, rest, found := bytes.Cut(page, []byte(begin))
	_, after, ended := bytes.Cut(rest, []byte(end))
	if !found || !ended {
		return nil, fmt.Errorf("the page has no place for %s: it needs the lines %q and %q", r.Experiment,
			strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return slices.Concat(before, []byte(begin+r.provenance()+"\n\n"), Markdown(r.Sections), []byte(end), after), nil
}

func (r *Record) provenance() string {
	text := fmt.Sprintf("`%s`: commit %s, %s, %s, %.0f s", r.Command, r.Commit, r.Date.UTC().Format("2006-01-02"),
		r.Machine, r.Took)
	if r.Fault != "" {
		text += ". **Failed**: " + strings.ReplaceAll(r.Fault, "\n", "; ")
	}
	return text
}

// Lead is provenance for a page of HTML.
func (r *Record) Lead() string {
	return fmt.Sprintf("%s · commit %s · %s · %s · %.0f s", r.Command, r.Commit,
		r.Date.UTC().Format("2006-01-02 15:04 UTC"), r.Machine, r.Took)
}
