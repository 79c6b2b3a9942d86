package result

import (
	"bytes"
	"fmt"
	"strings"

	"weir/bench/report"
)

// markers returns the lines that enclose the results of an experiment on a page.
func markers(experiment string) (begin, end string) {
	return "<!-- bench " + experiment + " -->\n", "<!-- /bench " + experiment + " -->\n"
}

// Refresh returns a page of Markdown in which the text between the experiment's markers is
// replaced by the record. It is an error if the page has no such markers.
func (r *Record) Refresh(page []byte) ([]byte, error) {
	begin, end := markers(r.Experiment)
	from := bytes.Index(page, []byte(begin))
	to := bytes.Index(page, []byte(end))
	if from < 0 || to < from {
		return nil, fmt.Errorf("the page has no place for %s: it needs the lines %q and %q", r.Experiment, strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	var b bytes.Buffer
	b.Write(page[:from+len(begin)])
	b.WriteString(r.provenance() + "\n\n")
	b.Write(report.Markdown(r.Sections))
	b.Write(page[to:])
	return b.Bytes(), nil
}

func (r *Record) provenance() string {
	text := fmt.Sprintf("`%s`: commit %s, %s, %s, %.0f s", r.Command, r.Commit, r.Date.UTC().Format("2006-01-02"), r.Machine, r.Took)
	if r.Fault != "" {
		text += ". **Failed**: " + strings.ReplaceAll(r.Fault, "\n", "; ")
	}
	return text
}

// Lead is provenance for a page of HTML.
func (r *Record) Lead() string {
	return fmt.Sprintf("%s · commit %s · %s · %s · %.0f s", r.Command, r.Commit, r.Date.UTC().Format("2006-01-02 15:04 UTC"), r.Machine, r.Took)
}
