// Package http1 reads and writes HTTP/1.1 messages: it turns received bytes into
// events, and appends messages to byte slices. It does no I/O, uses no clock, starts
// no goroutines and allocates nothing per message, except for an IPv6 address as the host. Its
// only state is one Reader for each direction of a connection.
//
// # Reading
//
// A Reader reads requests or responses. Next is given the bytes received and not
// yet read, and returns the first event in them and how many of them it has read:
//
//	            ┌──────────── next message ────────────┐
//	            ▼                                      │
//	bytes ─▶ HeadDone ─▶ Data ─▶ Data ─▶ … ─▶ End ─────┘
//	            │ 1xx: no End, another head follows
//	            └ 101, 2xx to CONNECT: Upgraded for ever
//
// After NeedMore, append newly received bytes to the unread ones and call Next again. A
// head or trailer section is read as a whole; bytes of a body may be read even with
// NeedMore. How the input is split only changes the boundaries of Data.
//
// All slices returned, including those in the Head, are parts of the input, and the
// Head is used again for the next message: copy what must be kept.
//
// Reader.EOF handles the end of the connection.
//
// Head.Begin, Add, FinishRequest and FinishResponse fill a Head by the same rules for readers of other
// versions.
//
// # Trust
//
// Request smuggling is possible where two programs interpret the same bytes differently.
// Therefore one function determines for both roles where a message ends, and ambiguous input is
// refused, not repaired. The error has the status to answer with; for a response it is 502.
//
// Accepted, with the section of RFC 9112 unless stated otherwise:
//
//	empty lines before a request line, some                 2.2
//	HTTP/1.0 and any later HTTP/1                           2.3
//	methods of any name                                     RFC 9110 9.1
//	targets in origin-, absolute-, authority- and
//	asterisk-form                                           3.2
//	field values with bytes above 0x7f                      RFC 9110 5.5
//	Content-Length with leading zeros                       RFC 9110 8.6
//	chunk extensions, ignored                               7.1.1
//	trailers, checked and apart from the head               7.1.2
//	interim responses                                       RFC 9110 15.2
//	bodies that end with the connection                     6.3 (8)
//
// Refused:
//
//	LF without CR, CR without LF, NUL and other controls    2.2, RFC 9110 5.5
//	a start line with whitespace other than its single SPs  3, 4
//	versions other than HTTP/1, with 505                    2.3
//	fragments, user information, schemes other than http
//	and https, broken escapes in a path, bytes above 0x7f   3.2, RFC 3986
//	no Host (from HTTP/1.1 on), two, or one not valid       3.2
//	whitespace before, in or after a field name             5.1
//	line folding                                            5.2
//	Content-Length that is no number, or more than one      6.3 (5)
//	Transfer-Encoding with Content-Length                   6.3 (3)
//	Transfer-Encoding in HTTP/1.0                           6.1
//	transfer codings other than one chunked, with 501 or 400  6.1, 6.3 (4)
//	chunk sizes with a sign, prefix or whitespace, or of
//	more than 16 digits or 63 bits                          7.1
//	malformed chunk extensions                              7.1.1
//	status codes below 100 and above 599                    RFC 9110 15
//	a head beyond [Limits], and more empty lines, options,
//	interim responses, chunk framing or trailers than the
//	Reader's other bounds allow
//
// The caller must check the following itself: Head.Check reports well-formed requests that
// a proxy at the edge must refuse, Head.KeepAlive whether to continue reading, and
// Head.CheckSwitch whether a 101 is valid.
//
// # Forwarding
//
// Field.Hop marks fields that must not be copied: those of the connection, those
// that Connection names, and the framing and Host, which the forwarder writes itself.
// Field.AmbiguousName marks names like X_Real_IP, which should be dropped from requests.
// Expect is not marked: a proxy that answers 100 itself drops it by its ID.
// Connection can name any field, so match rules before dropping fields, and add your own
// fields afterwards.
package http1
