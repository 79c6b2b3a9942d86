package archtest

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
)

// checkComment checks that a package has a package comment in the form of godoc: "Package name
// …", and for a program "Name …" or "Command name …".
func (f *findings) checkComment(p *pkg) {
	name := p.code()[0].syntax.Name.Name
	for _, source := range p.code() {
		if source.syntax.Doc == nil {
			continue
		}
		words := strings.Fields(source.syntax.Doc.Text())
		if name == "main" || len(words) > 1 && words[0] == "Package" && words[1] == name {
			return
		}
		f.of(p.dir+"/"+source.name, "the package comment does not begin with %q", "Package "+name)
		return
	}
	f.of(p.dir, "the package has no comment")
}

// dangling matches references in comments to documents that their reader does not have.
var dangling = regexp.MustCompile(
	`(?i)\bgoal [0-9]|\bcontracts(\.md)? (say|says|has|have|want|ask)|\bas contracts\b|\bthe issue\b`)

// checkReferences checks that comments are true without other documents.
func (f *findings) checkReferences() {
	var comments []*ast.CommentGroup
	for _, p := range f.repository.packages {
		for _, source := range p.files {
			comments = append(comments, source.syntax.Comments...)
		}
	}
	for _, group := range comments {
		if found := dangling.FindString(group.Text()); found != "" {
			f.at(group.Pos(), "the comment refers to %q, which its reader does not have", found)
		}
	}
}

// checkDocument checks that the packages in ARCHITECTURE.md's table of folders exist. A name
// without a slash has the same parent as the one before it.
func (f *findings) checkDocument() {
	dirs := make(map[string]bool)
	for _, p := range f.repository.packages {
		for dir := p.dir; dir != "."; dir = path.Dir(dir) {
			dirs[dir] = true
		}
	}
	for _, t := range f.repository.texts {
		if t.name != "ARCHITECTURE.md" {
			continue
		}
		_, table, _ := strings.Cut(t.content, "\n## Folders\n")
		table, _, _ = strings.Cut(table, "\n## ")
		for line := range strings.Lines(table) {
			cells := strings.Split(line, "|")
			if len(cells) < 3 {
				continue
			}
			for _, name := range unknown(cells[1], dirs) {
				f.of(t.name, "the table of folders has %s, which does not exist", name)
			}
		}
	}
}

// unknown returns the folders named in a cell that do not exist.
func unknown(cell string, dirs map[string]bool) (names []string) {
	parent := ""
	for i, name := range strings.Split(cell, "`") {
		if i%2 == 0 { // between two names
			continue
		}
		if !strings.Contains(name, "/") && parent != "" {
			name = path.Join(parent, name)
		}
		parent = path.Dir(name)
		if !dirs[name] {
			names = append(names, name)
		}
	}
	return names
}

// checkTexts checks that nothing is left unfinished and that no file contains a path of this
// machine.
func (f *findings) checkTexts(places []string) {
	for _, t := range f.repository.texts {
		for i, line := range strings.Split(t.content, "\n") {
			f.checkLine(fmt.Sprintf("%s:%d", t.name, i+1), line, places)
		}
	}
}

// checkLine is checkTexts for one line.
func (f *findings) checkLine(at, line string, places []string) {
	// split, because this file is checked too
	for _, word := range []string{"TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK"} {
		if slices.Contains(strings.FieldsFunc(line, notLetter), word) {
			f.of(at, "%s: finish it or leave it out", word)
		}
	}
	for _, path := range places {
		if strings.Contains(line, path) {
			f.of(at, "%s is a place on one machine", path)
		}
	}
}

// notLetter reports whether r separates words.
func notLetter(r rune) bool {
	return (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
}
