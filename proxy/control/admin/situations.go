package admin

import (
	"fmt"
	"math/bits"
)

// A situation is how a document of the store relates to the latest change that this proxy knows, as
// far as both have been seen. Its values are bits, so that a move can start from several.
type situation uint8

const (
	situationNowhere    situation = 1 << iota // no change is known
	situationUnreadable                       // likewise, and the store has an unreadable document
	situationStore                            // the store has the known change
	situationMissing                          // the store has an earlier change or none, and is being written
	situationLost                             // likewise, and writing has failed: to be tried again
	situationCovered                          // the store had it, and has an unreadable document: not touched
	situationHere                             // it was made here while the store was unavailable: to be written
	situationBlocked                          // likewise, over an unreadable document
)

// Sets of situations.
const (
	situationsUnwritten  = situationMissing | situationLost | situationHere | situationBlocked
	situationsUnreadable = situationUnreadable | situationCovered | situationBlocked
	situationsKnown      = ^(situationNowhere | situationUnreadable)
	situationsAll        = ^situation(0)
)

// An event is what an observation of the store means compared to what is known here, or how a
// write has ended.
type event uint8

const (
	eventSame       event = iota // the store has the known change, or nothing and none is known
	eventLater                   // it has a later change, now in force and known
	eventEarlier                 // it has an earlier change or nothing, although one is known
	eventUnreadable              // it has an unreadable document; what is in force stays
	eventChanged                 // a change made here is stored, in force and known
	eventUnstored                // a change made here is in force and known, and the store is unavailable
	eventWritten                 // the known change has been written again
	eventNotWritten              // the known change could not be written again
)

// A move is a row of the table: an event in one of some situations leads to another.
type move struct {
	on   event
	from situation
	to   situation
}

// moves are all moves. What is in no row is impossible.
var moves = []move{
	{eventSame, situationNowhere | situationUnreadable, situationNowhere},
	{eventSame, situationsKnown, situationStore},
	{eventLater, situationsAll, situationStore},
	{eventEarlier, situationStore | situationMissing | situationCovered, situationMissing},
	{eventEarlier, situationLost, situationLost},
	{eventEarlier, situationHere | situationBlocked, situationHere},
	{eventUnreadable, situationNowhere | situationUnreadable, situationUnreadable},
	{eventUnreadable, situationStore | situationMissing | situationLost | situationCovered, situationCovered},
	{eventUnreadable, situationHere | situationBlocked, situationBlocked},
	{eventChanged, situationsAll, situationStore},
	{eventUnstored, ^situationsUnreadable, situationHere},
	{eventUnstored, situationsUnreadable, situationBlocked},
	{eventWritten, situationsUnwritten, situationStore},
	{eventNotWritten, situationMissing | situationLost, situationLost},
	{eventNotWritten, situationHere, situationHere},
	{eventNotWritten, situationBlocked, situationBlocked},
}

// after returns the situation after an event.
func (s situation) after(e event) situation {
	for _, m := range moves {
		if m.on == e && s.in(m.from) {
			return m.to
		}
	}
	panic(fmt.Sprintf("bug: admin: event %d in situation %v", e, s))
}

// in reports whether s is in a set.
func (s situation) in(set situation) bool { return s&set != 0 }

// String names the situation.
func (s situation) String() string {
	return [...]string{"nowhere", "unreadable", "store", "missing", "lost", "covered", "here",
		"blocked"}[bits.TrailingZeros8(uint8(s))]
}
