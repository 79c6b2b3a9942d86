package rule

import (
	"strings"

	"weir/internal/data/strict"
	"weir/proxy/rules/refusal"
)

// A RefusalStyle says what refusals of one rule look like. Missing values are those of the
// settings.
//
// Immutable after New.
type RefusalStyle struct {
	Status   int                      `json:"status,omitempty"`   // 429 or 503
	Template string                   `json:"template,omitempty"` // name of the files without extension
	Fields   map[string]strict.Scalar `json:"fields,omitempty"`   // replace the fields of the settings

	lines []byte // Fields as field lines
}

// IsZero reports whether the rule says nothing about its refusals.
func (r RefusalStyle) IsZero() bool { return r.Status == 0 && r.Template == "" && r.Fields == nil }

// Lines returns the fields as field lines, or nil if there are none.
func (r *RefusalStyle) Lines() []byte { return r.lines }

func (j *judge) refusal(n *strict.Node, c *compiled) {
	path, r := c.path+".refusal", &c.Refusal
	j.Filled(n, path, "template")
	if status := n.Member("status"); status != nil && r.Status != 429 && r.Status != 503 {
		j.Fault(path+".status", "must be 429 or 503, is %v", status)
	}
	if r.Template != "" && !refusal.ValidName(r.Template) {
		j.Fault(path+".template", "must be the name of templates, without .html, .json or .txt, is %q", r.Template)
	} else if r.Template != "" && j.o.HasTemplate != nil && !j.o.HasTemplate(r.Template) {
		tell := j.Fault
		if j.Unknown != nil { // another proxy has it; the limits apply here too
			tell = j.Note
		}
		tell(path+".template", "there is no template %q in the folder REFUSAL_TEMPLATES", r.Template)
	}
	fields, path := n.Member("fields"), path+".fields"
	if fields == nil {
		return
	}
	if err := refusal.CheckFieldCount(len(fields.Children)); err != nil {
		j.AddFaults(path, err)
		return
	}
	seen := make(map[string]bool, len(fields.Children))
	for _, field := range fields.Names {
		name := string(field.Word)
		lower := strings.ToLower(name)
		j.AddFaults(strict.MemberPath(path, name), refusal.CheckField(name, string(r.Fields[name])))
		j.Check(seen[lower], strict.MemberPath(path, name), "given twice, since field names are case-insensitive")
		seen[lower] = true
	}
	r.lines = refusal.Lines(r.Fields)
}
