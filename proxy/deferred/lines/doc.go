// Package lines orders deferred requests: in one line for each key of a rule, and for each rule
// in a heap of the lines that are due. It has the part of each entry that a queue keeps in
// memory, about 200 bytes, and determines which entry is next and whether there is room for
// another one.
package lines
