// Package state saves what the advisor knows across restarts and crashes.
//
// There are two kinds of files. The checkpoint, under the configured name, has everything
// known at one moment. It is replaced as a whole (written under another name, synced,
// renamed), so that a complete one always exists. The journal, under that name followed
// by ".journal-" and a number, has what was learned since, one line per record. Lines are
// written and synced when the owner flushes, once a second. On start the checkpoint is read,
// and then the records of the journal that follow it.
//
//	sequence   1 … 40 │ 41 … 90 │ 91 …
//	checkpoint             ▲ has all up to 40
//	journals           …journal-40  …journal-90
//
// Both are versioned and protected by CRC-32C. A damaged checkpoint is renamed, not deleted. A
// journal is used up to the first incomplete line: a crash or a full disk may have cut it
// there.
package state
