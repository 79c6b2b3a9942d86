// Package archtest checks the architecture: it parses the source of the whole repository
// and reports violations of rules that the compiler, go vet and staticcheck do not check.
// It runs as an ordinary test.
//
// The order of the folders, and what pure packages must not do, are in layers.go. What is
// checked:
//
//   - every package is in one of the folders, and its imports point down;
//   - programs do not import each other, and each foreign module that shapes the
//     architecture is imported in one place;
//   - packages outside the rim read no clock, start no goroutine, open no socket, write
//     no log and keep nothing in package-level variables;
//   - programs say what they are for, as staticcheck has packages do;
//   - files, mains and functions stay small, functions have at most 5 parameters and
//     3 levels of nesting, and lines at most 120 columns;
//   - comments refer to nothing that their reader does not have, and ARCHITECTURE.md
//     lists no folder that does not exist;
//   - nothing is left unfinished and no file names a place on one's own machine.
//
// The checks work on parsed files without loading imports, so they need neither the
// network nor a compiled repository. Heuristic checks, such as whether a variable is ever
// changed, are meant to catch mistakes, not deliberate evasion.
package archtest
