// Package lines orders deferred requests: one line for each key of a rule, and for each rule
// a heap of the lines that are due. It keeps what a queue has in memory of each entry, about 200 bytes, and decides
// which entry is next and whether there is room for another.
package lines
