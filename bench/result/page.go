package result

import (
	"bytes"
	"fmt"
	"strings"

	"weir/bench/report"
)

// Markers enclose what Refresh writes about an experiment in a page.
func markers(experiment string) (begin, end string) {
	return "<!-- bench " + experiment + " -->\n", "<!-- /bench " + experiment + " -->\n"
}

// Refresh puts the record in place of what stands between its experiment's
// markers in a page of Markdown; what people have written around it stays. The
// error says that the page has no place for it.
func (r *Record) Refresh(page []byte) ([]byte, error) {
	begin, end := markers(r.Experiment)
	from := bytes.Index(page, []byte(begin))
	to := bytes.Index(page, []byte(end))
	if from < 0 || to < from {
		return nil, fmt.Errorf("the page has no place for %s: it takes the lines %q and %q", r.Experiment, strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	var b bytes.Buffer
	b.Write(page[:from+len(begin)])
	b.WriteString(r.provenance() + "\n\n")
	b.Write(report.Markdown(r.Sections))
	b.Write(page[to:])
	return b.Bytes(), nil
}

// provenance says where the figures come from.
func (r *Record) provenance() string {
	text := fmt.Sprintf("`%s`: commit %s, %s, %s, %.0f s", r.Command, r.Commit, r.Date.UTC().Format("2006-01-02"), r.Machine, r.Took)
	if r.Fault != "" {
		text += ". **Not as it should be**: " + strings.ReplaceAll(r.Fault, "\n", "; ")
	}
	return text
}

// Lead says the same for a page of HTML.
func (r *Record) Lead() string {
	return fmt.Sprintf("%s · commit %s · %s · %s · %.0f s", r.Command, r.Commit, r.Date.UTC().Format("2006-01-02 15:04 UTC"), r.Machine, r.Took)
}
