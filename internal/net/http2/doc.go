// Package http2 reads and writes one HTTP/2 connection (RFC 9113), as its server or its client: it turns received
// bytes into events, and appends frames to byte slices. It does no I/O, uses no clock, starts no goroutines and has
// no locks. Its heads are those of package http1 and obey its rules.
//
// # Reading
//
// Next is given the bytes received and not yet read, from the connection preface on, and returns the first event in
// them and how many of them it has read:
//
//	server: HeadDone ─▶ Data ─▶ … ─▶ the event with EndStream, which may be Trailers
//	client: HeadDone (1xx) ─▶ … ─▶ HeadDone ─▶ Data ─▶ … ─▶ the same
//
// Events of several streams come in any order. Those of one stream end with EndStream or with Reset, which
// may follow EndStream as long as we have not ended the stream too. After NeedMore, append newly received
// bytes to the unread ones and call Next again. DATA is read in pieces, but the field block of a head is read
// as a whole. So up to http1's Limits.Bounds bytes may be unread, in addition to their frame headers. How the
// input is split only changes the boundaries of Data. Unread bytes are always a part of a frame: whoever
// leaves them incomplete for too long should lose the connection.
//
// The end of the connection ends its streams. At a client, requests whose responses are missing may have been
// processed.
//
// # Writing
//
// The Append functions keep the rules of RFC 9113 5.1 about the order of frames, the windows (5.2), and the limits in
// the peer's SETTINGS. AppendData appends what Room allows; a caller that has more waits for WindowGrew or Settings.
// Fields are given as lines of HTTP/1.1, in which their names may have capitals.
//
// # Trust
//
// Faults of the connection end it, with the code that RFC 9113 names. So do faults of streams by which a
// client could make us reset its own requests, and which no working implementation has (5.4.1,
// CVE-2025-8671): frames on closed streams, WINDOW_UPDATE by 0, PRIORITY of a wrong size. Faults of single
// messages reset their stream:
//
//	names with capitals, controls, whitespace around values  8.2.1
//	fields of the connection, TE other than trailers         8.2.2
//	pseudo-header fields that are unknown, missing, repeated,
//	after other fields, in trailers                          8.3
//	:path that does not begin with '/', except * of OPTIONS  8.3.1
//	schemes other than http and https                        8.3.1
//	:authority and Host that differ                          8.3.1
//	a body whose length is not Content-Length                8.1.1
//	trailers that do not end the stream, 101                 8.1, 8.6
//
// What http1 refuses beyond that is BadHead, with the status to answer. CONNECT is read, without the extension of RFC
// 8441; http1's Head.Check has what a proxy must refuse. Push is disabled, priorities are read and ignored. The
// client's bound on unfinished work is Limits.Streams with SetWorking; glitches (see Glitch) are what it may do only
// once in a while.
package http2
