package archtest

// shapeBounds are the bounds on the lines of a file, of a main.go and of a function, on the parameters
// of a function, on the nesting of its control statements, and on the columns of a line without a
// string that is too long by itself. A package has no bound: it has one idea, and as many files as that
// needs.
var shapeBounds = map[string]int{"file": 400, "main": 150, "function": 60, "parameters": 5, "nesting": 3, "width": 120}

// kindNames names in findings what the bounds count.
var kindNames = map[string]string{
	"file": "lines in a file", "main": "lines in main.go", "function": "lines in a function",
	"parameters": "parameters", "nesting": "levels of nesting", "width": "columns",
}

// shrinking lists what exceeds a bound at present, with the value. The numbers only fall: a check
// fails if one is higher than necessary. Nothing may be added.
var shrinking = map[string]int{
	"parameters internal/program/service.Settings.Bytes":    6,
	"parameters internal/program/service.Settings.Duration": 6,
	"parameters internal/program/service.Settings.Float":    6,
	"parameters internal/program/service.Settings.Int":      6,
}
