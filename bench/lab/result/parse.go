package result

import (
	"slices"
	"strings"
)

// Parse reads the output of an experiment: Markdown with headings (###), tables and
// paragraphs. Lines that begin with a blank are progress and are skipped.
func Parse(text string) []Section {
	p := parser{sections: []Section{{}}}
	for line := range strings.Lines(text) {
		p.line(strings.TrimRight(line, "\r\n"))
	}
	p.endNote()
	if first := p.sections[0]; first.Heading == "" && first.Notes == nil && first.Tables == nil {
		p.sections = p.sections[1:]
	}
	return p.sections
}

type parser struct {
	sections []Section
	note     []string // the lines of the paragraph that is being read
	inTable  bool
}

func (p *parser) line(line string) {
	last := &p.sections[len(p.sections)-1]
	table := p.inTable
	p.inTable = strings.HasPrefix(line, "|")
	switch {
	case strings.HasPrefix(line, "### "):
		p.endNote()
		p.sections = append(p.sections, Section{Heading: strings.TrimPrefix(line, "### ")})
	case p.inTable && !table:
		p.endNote()
		last.Tables = append(last.Tables, Table{Columns: cells(line)})
	case p.inTable:
		t := &last.Tables[len(last.Tables)-1]
		if row := cells(line); !ruled(row) {
			t.Rows = append(t.Rows, row)
		}
	case line == "":
		p.endNote()
	case line[0] != ' ' && line[0] != '\t':
		p.note = append(p.note, line)
	}
}

func (p *parser) endNote() {
	if p.note == nil {
		return
	}
	last := &p.sections[len(p.sections)-1]
	last.Notes = append(last.Notes, strings.Join(p.note, "\n"))
	p.note = nil
}

func cells(line string) []string {
	return split(strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "|"), "|"))
}

// ruled reports whether a row is the line below a table's header.
func ruled(row []string) bool {
	return !slices.ContainsFunc(row, func(cell string) bool { return cell == "" || strings.Trim(cell, "-:") != "" })
}
