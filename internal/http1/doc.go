// Package http1 reads and writes HTTP/1.1 messages: bytes in, events out, and
// bytes appended. It does no I/O, knows no clock, starts nothing and allocates
// nothing per message, so that one value per direction of a connection is all
// there is to it.
//
// # Reading
//
// A Reader is made for requests or for responses. Next is given the bytes that
// have come and are not done with, and says what they begin with and how many
// of them are done with now:
//
//	            ┌──────────── next message ────────────┐
//	            ▼                                      │
//	bytes ─▶ HeadDone ─▶ Data ─▶ Data ─▶ … ─▶ End ─────┘
//	            │ 1xx: no End, another head follows
//	            └ 101, 2xx to CONNECT: Upgraded for ever
//
// NeedMore may come at any place: append what comes to what is left and call
// Next again. In a head nothing is done with before all of it is there; in a
// body bytes may be done with even then. How the input is split changes neither
// the events, but for where Data is cut, nor the error.
//
// All slices that come out, those in the Head too, are parts of the bytes given
// in, and the Head is the caller's and used again. Who keeps something, copies
// it.
//
// Reader.EOF tells the end of the connection and says what that means.
//
// # Trust
//
// Two programs that read the same bytes differently are how requests are
// smuggled. So one function, framing, decides for both roles where a message
// ends, and what could be understood in two ways is refused rather than
// repaired. A request comes with the status that answers it; a response that is
// refused is a 502 for whoever waits.
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
// Left to the caller, who is a proxy or is not: Head.Check has what an edge
// refuses in well-formed requests; Head.KeepAlive says when to stop reading;
// Head.CheckSwitch judges a 101; methods, paths and expectations mean what the
// caller says.
//
// # Forwarding
//
// Field.Hop marks what must not be copied: the connection's own fields, those
// that a Connection field names, the framing and the Host, which the forwarder
// writes anew from Head.Length, Head.Framing and Head.Host. Field.Odd marks names
// like X_Real_IP, which are better left out of requests. Expect is not marked: it goes to the end, and a proxy
// that answers 100 itself leaves it out by its ID. Limit by a field's value
// before leaving fields out, and add own fields after: any field can be named
// by Connection, those that a proxy relies on too.
package http1
