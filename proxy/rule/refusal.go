package rule

import (
	"strings"

	"weir/proxy/refusal"
)

// A Refusal is what refusals of one rule look like. What is left out is as the settings
// have it for all.
//
// Immutable after New.
type Refusal struct {
	Status   int               `json:"status,omitempty"`   // 429 or 503
	Template string            `json:"template,omitempty"` // name of the files, without what follows the dot
	Fields   map[string]string `json:"fields,omitempty"`   // in place of those of all

	lines []byte // Fields, as an answer has them
}

// IsZero reports whether a rule says nothing of its refusals.
func (r Refusal) IsZero() bool { return r.Status == 0 && r.Template == "" && r.Fields == nil }

// Lines are the fields as an answer has them, nil when there are none.
func (r *Refusal) Lines() []byte { return r.lines }

// refusal reads what refusals of the rule look like.
func (o object) refusal() (r Refusal) {
	n, path := o.at("refusal")
	if n == nil {
		return r
	}
	in := o.j.object(n, path, "status", "template", "fields")
	if status, at := in.at("status"); status != nil {
		if status.word != "429" && status.word != "503" || status.kind != kindNumber {
			o.j.fault(status.line, at, "must be 429 or 503, is %v", status)
		} else if r.Status = 429; status.word == "503" {
			r.Status = 503
		}
	}
	if r.Template = in.text("template"); r.Template != "" {
		at := in.member("template").line
		if !refusal.ValidName(r.Template) {
			o.j.fault(at, in.path+".template", "must be the name of templates, without .html, .json or .txt, is %q", r.Template)
		} else if has := o.j.hasTemplate; has != nil && !has(r.Template) {
			tell := o.j.fault
			if o.j.unknown != nil { // another proxy has it: the limits hold here too
				tell = o.j.note
			}
			tell(at, in.path+".template", "there is no template %q in the folder REFUSAL_TEMPLATES", r.Template)
		}
	}
	fields, at := in.at("fields")
	if fields == nil {
		return r
	}
	if err := refusal.CheckCount(len(fields.kids)); err != nil {
		o.j.fault(fields.line, at, "%s", err)
		return r
	}
	by := o.j.object(fields, at)
	r.Fields = make(map[string]string, len(by.names))
	seen := make(map[string]bool, len(by.names))
	for i, field := range by.names {
		value := o.j.scalar(&by.kids[i], join(at, field.word))
		lower := strings.ToLower(field.word)
		if err := refusal.CheckField(field.word, value); err != nil {
			o.j.fault(field.line, join(at, field.word), "%s", err)
		} else if seen[lower] {
			o.j.fault(field.line, join(at, field.word), "given twice, as names of fields have no case")
		}
		seen[lower] = true
		r.Fields[field.word] = value
	}
	r.lines = refusal.Lines(r.Fields)
	return r
}
