package archtest

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"strings"
)

// dangling matches references in comments to documents that their reader does not have.
var dangling = regexp.MustCompile(
	`(?i)\bgoal [0-9]|\bcontracts(\.md)? (say|says|has|have|want|ask)|\bas contracts\b|\bthe issue\b`)

// checkReferences checks that comments are true without other documents.
func (r *repository) checkReferences(f *file) {
	for _, group := range f.syntax.Comments {
		if found := dangling.FindString(group.Text()); found != "" {
			r.reportAt(group, "the comment refers to %q, which its reader does not have", found)
		}
	}
}

// unfinished matches marks of unfinished work. It is split because this file is checked too.
var unfinished = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|X` + `XX|HA` + `CK)\b`)

// checkText checks that nothing is left unfinished, that no file contains a path of this machine,
// and that ARCHITECTURE.md has folders and Go names that exist.
func (r *repository) checkText(f *file, places []string) {
	for i, line := range strings.Split(f.content, "\n") {
		at := fmt.Sprintf("%s:%d", f.name, i+1)
		if word := unfinished.FindString(line); word != "" {
			r.report(at, "%s: finish it or leave it out", word)
		}
		for _, place := range places {
			if strings.Contains(line, place) {
				r.report(at, "%s is a place on one machine", place)
			}
		}
	}
	if f.name == "ARCHITECTURE.md" {
		r.checkFolders(f)
		r.checkNames(f)
	}
}

// coded matches what a text shows as code, and goName in it Go names of two words or after a dot.
var coded = regexp.MustCompile("(?s)```.*?```|`[^`]+`")
var goName = regexp.MustCompile(`\.[A-Z]\w+|\b[A-Za-z]+[a-z][A-Z]\w*`)

// checkNames checks that the Go names in a text are in the source.
func (r *repository) checkNames(f *file) {
	exists := make(map[string]bool)
	for _, source := range r.files {
		if source.syntax != nil {
			ast.Inspect(source.syntax, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					exists[id.Name] = true
				}
				return true
			})
		}
	}
	code := strings.Join(coded.FindAllString(f.content, -1), "\n")
	for _, name := range goName.FindAllString(code, -1) {
		if name = strings.TrimPrefix(name, "."); !exists[name] {
			r.report(f.name, "%s is not in the source", name)
		}
	}
}

// named matches the names in a cell of a table.
var named = regexp.MustCompile("`[^`]+`")

// checkFolders checks that the first column of the table of folders names such as exist. A name
// without a slash has the same parent as the one before it.
func (r *repository) checkFolders(f *file) {
	_, table, _ := strings.Cut(f.content, "\n## Folders\n")
	table, _, _ = strings.Cut(table, "\n## ")
	for line := range strings.Lines(table) {
		parent := ""
		cell, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|")
		for _, name := range named.FindAllString(cell, -1) {
			name = strings.Trim(name, "`")
			if !strings.Contains(name, "/") {
				name = path.Join(parent, name)
			}
			parent = path.Dir(name)
			if !r.folders[name] {
				r.report(f.name, "the table of folders has %s, which does not exist", name)
			}
		}
	}
}
