// Package http1 reads and writes HTTP/1.1 messages: bytes in, events out, and
// bytes appended. It does no I/O, knows no clock, starts nothing and allocates
// nothing per message, so that one value per direction of a connection is all
// there is to it.
//
// # Reading
//
// A Reader reads requests or responses. Next takes the bytes received and not
// yet read, and returns what they begin with and how many of them it has read:
//
//	            ┌──────────── next message ────────────┐
//	            ▼                                      │
//	bytes ─▶ HeadDone ─▶ Data ─▶ Data ─▶ … ─▶ End ─────┘
//	            │ 1xx: no End, another head follows
//	            └ 101, 2xx to CONNECT: Upgraded for ever
//
// After NeedMore, append what is received to what is left and call Next again. A
// head is read as a whole; of a body, bytes may be read even then. How the input is
// split changes where Data is cut, and nothing else.
//
// All slices returned, also those in the Head, are parts of the input, and the
// caller uses the Head again: copy what is kept.
//
// Reader.EOF handles the end of the connection.
//
// # Trust
//
// Requests are smuggled where two programs read the same bytes differently. So
// one function, framing, decides for both roles where a message ends, and what
// could be understood in two ways is refused, not repaired. The error has the
// status to answer; for a response it is 502.
//
// Read, with the section of RFC 9112 unless it says otherwise:
//
//	empty lines before a request line, some                 2.2
//	HTTP/1.0 and any later HTTP/1                           2.3
//	methods of any name                                     RFC 9110 9.1
//	targets in origin-, absolute-, authority- and
//	asterisk-form                                           3.2
//	field values with bytes above 0x7f                      RFC 9110 5.5
//	Content-Length with leading zeros                       RFC 9110 8.6
//	chunk extensions, ignored                               7.1.1
//	trailers, checked and dropped                           7.1.2
//	interim responses                                       RFC 9110 15.2
//	bodies that end with the connection                     6.3 (8)
//
// Refused:
//
//	LF without CR, CR without LF, NUL and other controls    2.2, RFC 9110 5.5
//	more or other blanks in a start line than its spaces    3, 4
//	versions other than HTTP/1, with 505                    2.3
//	fragments, user information, schemes other than http
//	and https, broken escapes in a path, bytes above 0x7f   3.2, RFC 3986
//	no Host (from HTTP/1.1 on), two, or one not valid       3.2
//	whitespace before, in or behind a field name            5.1
//	line folding                                            5.2
//	Content-Length that is no number, or more than one      6.3 (5)
//	Transfer-Encoding with Content-Length                   6.3 (3)
//	Transfer-Encoding in HTTP/1.0                           6.1
//	transfer codings other than one chunked, with 501 or 400  6.1, 6.3 (4)
//	chunk sizes with sign, prefix, blanks, or of more than
//	16 digits or 63 bits                                    7.1
//	chunk extensions not after its grammar                  7.1.1
//	status codes below 100 and above 599                    RFC 9110 15
//	anything beyond Limits
//
// Left to the caller: Head.Check says what a proxy at the edge refuses in
// well-formed requests, Head.KeepAlive when to stop reading, Head.CheckSwitch
// whether a 101 is valid.
//
// # Forwarding
//
// Field.Hop marks fields that must not be copied: those of the connection, those
// that Connection names, the framing and Host, which the forwarder writes itself.
// Field.Odd marks names like X_Real_IP, which are better dropped from requests.
// Expect is not marked: a proxy that answers 100 itself drops it by its ID.
// Connection can name any field: match rules before dropping fields, and add own
// fields after.
package http1
