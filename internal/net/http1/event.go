package http1

// A Kind is the kind of an Event.
type Kind uint8

const (
	// NeedMore: the bytes end inside something; call Next again with the
	// bytes not yet read, followed by more.
	NeedMore Kind = iota
	// HeadDone: the Head is filled and its framing decided.
	HeadDone
	// Data: body bytes, without any transfer coding.
	Data
	// End: the message is complete; the next byte belongs to another one.
	// An interim (1xx) response has no End: the next response follows it.
	End
	// Upgraded: after 101, or 2xx to CONNECT, the bytes are no longer HTTP;
	// nothing is consumed.
	Upgraded
)

// An Event is one step of reading a message.
type Event struct {
	Kind Kind
	// Trailer says, with End, that the message had a trailer section.
	Trailer bool
	// N is how many of the bytes given to Next have been read, whatever the
	// Kind. With NeedMore it is 0 in a head, except for empty lines before it.
	N int32 // an int would make the Event too large for registers
	// Data is the body piece of a Data event, never empty; with End, the field lines of
	// the trailer section, see FieldLines, or nil if it has more than Limits.Fields. It
	// is a part of the bytes given to Next and is valid as long as they are.
	Data []byte
}
