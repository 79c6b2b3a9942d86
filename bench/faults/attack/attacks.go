package attack

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"weir/bench/lab/rig"
)

// timeout is the value of the proxy's timeouts, less than the defaults (10 s, 15 s, 60 s, 15 s,
// 10 s, 60 s) so that an attack is over soon. All other settings are defaults.
const timeout = 5 * time.Second

// costs returns the attacks whose attackers are expensive, or hold connections: no good request may
// fail.
func costs(most int) scene {
	const span = 10 * time.Second
	return scene{
		target: separate, base: span,
		settings: timeouts(),
		good:     rig.Load{URL: "/api/test", Rate: 500, For: span, Connections: 16},
		attacks:  slices.Concat(slow(most), bombs(), targets()),
	}
}

// timeouts returns the settings for attackers that hold connections.
func timeouts() []string {
	return []string{"HEAD_TIMEOUT=5s", "BODY_TIMEOUT=5s", "IDLE_TIMEOUT=5s", "WRITE_TIMEOUT=5s",
		"TARGET_TIMEOUT=5s", "STREAM_TIMEOUT=5s", "RATE_LIMIT_LIMIT=1000000000"}
}

// An attack describes what attackers do and how many there are.
type attack struct {
	name, about string
	conns       int               // at the same time, at most
	opens       float64           // connections per second, at most
	files       int               // limit of the proxy's descriptors; 0 for our own
	small       bool              // receive buffers of 4 KiB
	text        string            // sent first; "" for nothing; see number and own
	then        func(a *attacker) // done next; nil: the attacker leaves
	life        time.Duration     // how long the proxy may keep a connection; zero: any time
	from        int               // number of addresses of the attackers; 0: addresses
	lead        time.Duration     // how long before the good traffic the attackers come; 0: they come later than that
	streams     int               // responses in progress on each connection; see row.memoryMax
	control     string            // see row.allowed; "" if more than that is only a remark
	goal        float64           // least success of the good client relative to the baseline; 0: no good request may fail
}

// after returns how long after the start of the good traffic the attackers come.
func (a *attack) after() time.Duration {
	if a.lead > 0 {
		return 0
	}
	return calm
}

// Paces of attackers. They share two cores with the proxy, so their work is bounded: otherwise
// the scheduler would be measured rather than the proxy.
const (
	everyPiece = 2500 * time.Millisecond // between two bytes of a slow sender
	fastOpens  = 2000
	// holding bounds the attackers that hold a connection to the target. With all 1024 of them
	// the target would be attacked rather than the proxy.
	holding = 500
	// stuck bounds the attackers that do not read their answer: the kernel buffers megabytes of
	// each, and bounds the buffers of all sockets of the machine together.
	stuck      = 200
	stuckOpens = 20 // low, because each answer moves megabytes until it is stuck
	// dripsUnheard is how long a client that has closed may look like one that has half closed and
	// reads on, while the target sends a byte every second: its system answers the next byte with a
	// reset, and the proxy learns of that when it sends the byte after that. Before that the proxy
	// collects the answer during TARGET_TIMEOUT.
	dripsUnheard = 2 * time.Second
)

// slow returns the attacks that hold connections.
func slow(most int) []attack {
	drip := func(text string) func(a *attacker) { return func(a *attacker) { a.drip(text) } }
	large := message("GET /bytes/10000000")
	return []attack{
		{name: "slow-head", about: "a byte of a field every 2.5 s", conns: most, opens: fastOpens, life: timeout,
			text: strings.TrimSuffix(message(usual, "X-Slow: "), "\r\n\r\n"), then: drip("a")},
		// the span of BODY_MIN_RATE
		{name: "slow-body", about: "a byte of an upload every 2.5 s", conns: most, opens: fastOpens, life: 10 * time.Second,
			text: message(upload, "Content-Length: 100000"), then: drip("a")},
		{name: "slow-empty", about: "an empty line every 2.5 s", conns: most, opens: fastOpens, life: timeout,
			then: drip("\r\n")},
		{name: "idle", about: "sends nothing", conns: most, opens: fastOpens, life: timeout, then: (*attacker).answer},
		{name: "flood", about: "connects and closes", conns: most, opens: fastOpens, life: time.Second},
		{name: "stuck-read", about: "requests 10 MB and does not read", conns: stuck, opens: stuckOpens, life: timeout,
			small: true,
			text:  large, then: func(a *attacker) { a.hold(timeout + 4*time.Second) }},
		{name: "slow-read", about: "reads 512 bytes of 10 MB every second", conns: stuck, opens: stuckOpens, small: true,
			text: large, then: (*attacker).sip},
		{name: "files-256", about: "500 idle connections, the proxy has 256 descriptors", conns: 500, opens: 500,
			files: 256, life: timeout, then: (*attacker).answer},
	}
}

// once returns an attack with one message, whose attackers leave after the answer: a connection that
// is kept alive is no attack.
func once(name, about string, opens float64, text string) attack {
	return attack{name: name, about: about, conns: holding, opens: opens, life: timeout, text: text,
		then: (*attacker).answer}
}

// bombs returns the attacks with messages that might be expensive.
func bombs() []attack {
	letters := func(n int) string { return strings.Repeat("a", n) }
	chunked := message(upload, "Transfer-Encoding: chunked")
	fields := make([]string, 10_000)
	for i := range fields {
		fields[i] = fmt.Sprintf("X%d: 1", i)
	}
	return []attack{
		once("long-line", "a field of 100 kB", 200, message(usual, "X-Long: "+letters(100_000))),
		once("many-fields", "10,000 fields", 200, message(usual, fields...)),
		once("long-name", "a field name of 1 MB", 20, message(usual, letters(1<<20)+": 1")),
		once("tiny-chunks", "65,536 chunks of a byte", 10, chunked+strings.Repeat("1\r\na\r\n", 1<<16)+"0\r\n\r\n"),
		once("extension", "a chunk extension of 64 KiB", 200, chunked+"1;e="+letters(64<<10)+"\r\na\r\n0\r\n\r\n"),
		once("empty-lines", "2000 empty lines", 500, strings.Repeat("\r\n", 2000)+message(usual)),
		{name: "huge-length", about: "Content-Length 2^63-1", conns: holding, opens: 100, life: 10 * time.Second,
			text: message(upload, "Content-Length: 9223372036854775807"), then: func(a *attacker) {
				a.answer()
				_, _ = io.Copy(io.Discard, a.in)
			}},
		{name: "pipeline", about: "10,000 requests at once, reads no answer", conns: 20, opens: 0.5, life: 2 * timeout,
			small: true,
			then:  func(a *attacker) { go a.say([]byte(strings.Repeat(message(usual), 10_000))); a.hold(4 * timeout) }},
	}
}

// targets returns the attacks that make the target misbehave.
func targets() []attack {
	return []attack{
		once("target-never", "the target never answers", 100, message("GET /never")),
		{name: "target-drip", about: "the target sends a byte every second", conns: holding, opens: 100,
			life: timeout + dripsUnheard,
			text: message("GET /drip"), then: (*attacker).answer},
		once("target-cut", "the target closes in the middle of its answer", 200, message("GET /cut")),
		once("target-junk", "the target does not send HTTP", 200, message("GET /junk")),
		once("target-interim", "the target sends 1000 interim answers", 50, message("GET /interim/1000")),
	}
}

// Unless an attack is about the answer, it uses the path of the good traffic.
const (
	usual  = "GET /api/test"
	upload = "POST /api/test"
)

func message(request string, fields ...string) string {
	return request + " HTTP/1.1\r\nHost: weir\r\n" + strings.Join(append(fields, "", ""), "\r\n")
}
