// Package state keeps what the advisor knows across restarts and crashes.
//
// Two kinds of files stand beside each other. The image, under the name that is
// set, is everything known at one moment; it is replaced whole (written under
// another name, synced, renamed), so that there is always one that is complete.
// The journal, under that name with ".journal-" and a number behind it, holds
// what was learned since, one line per record; lines are written and synced when
// their owner flushes, which it does once a second. Who starts reads the image, and then what
// the journal says beyond it.
//
//	sequence   1 … 40 │ 41 … 90 │ 91 …
//	image             ▲ has all up to 40
//	journals           …journal-40  …journal-90
//
// Both are versioned and checked by CRC-32C. An image that is damaged is put
// aside, not deleted. A journal is believed up to the first line that is not
// whole: a crash or a full disk may have cut it there.
package state
