package limit

import "strings"

// A Fault is one thing wrong with a configuration.
type Fault struct {
	Path    string // JSON path, as in rules[2].limit.window
	Message string // what is allowed and what was found
}

// Error returns "path: message".
func (f Fault) Error() string {
	if f.Path == "" {
		return f.Message
	}
	return f.Path + ": " + f.Message
}

// Faults is all that is wrong with a configuration; as an error it is never
// empty.
type Faults []Fault

// Error returns all faults, separated by semicolons.
func (f Faults) Error() string {
	var b strings.Builder
	for i, fault := range f {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(fault.Error())
	}
	return b.String()
}

// Under returns the faults with their paths put under path, for a configuration
// that is part of a larger document.
func (f Faults) Under(path string) Faults {
	moved := make(Faults, len(f))
	for i, fault := range f {
		moved[i] = fault
		switch {
		case fault.Path == "":
			moved[i].Path = path
		case path != "":
			moved[i].Path = path + "." + fault.Path
		}
	}
	return moved
}
