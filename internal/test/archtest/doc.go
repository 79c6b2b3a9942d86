// Package archtest checks the architecture: it parses the source of the whole repository
// and reports violations of rules that the compiler, go vet and staticcheck do not check.
// It runs as an ordinary test.
//
// The order of the directories, and what pure packages must not do, are data in this package.
// These rules are checked:
//
//   - every package is in one of the directories, and its imports point down;
//   - programs do not import each other, and each foreign module that shapes the
//     architecture is imported in one place;
//   - packages outside the rim read no clock, start no goroutine, open no socket, write
//     no log and keep nothing in package-level variables;
//   - every program has a package comment (staticcheck checks the other packages);
//   - files, mains and functions stay small, functions have at most 5 parameters and
//     3 levels of nesting, and lines at most 120 columns;
//   - comments refer only to what their reader has, and ARCHITECTURE.md
//     lists only directories that exist;
//   - there are no markers of unfinished work and no absolute paths of a developer's machine.
//
// The checks work on parsed files without loading imports, so they need neither the
// network nor a compiled repository. Heuristic checks, such as whether a variable is ever
// changed, are meant to catch mistakes, not deliberate evasion.
package archtest
