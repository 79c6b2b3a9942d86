package attack

import "time"

// timeout is the value of the proxy's timeouts, less than the defaults (10 s, 15 s, 60 s, 15 s,
// 10 s, 60 s) so that an attack is over soon. All other settings are defaults.
const timeout = 5 * time.Second

var settings = []string{
	"HEAD_TIMEOUT=5s", "BODY_TIMEOUT=5s", "IDLE_TIMEOUT=5s", "WRITE_TIMEOUT=5s", "TARGET_TIMEOUT=5s", "STREAM_TIMEOUT=5s",
	"RATE_LIMIT_LIMIT=1000000000",
}

// An attack describes what attackers do and how many there are.
type attack struct {
	name, about string
	conns       int     // at the same time, at most
	opens       float64 // connections per second, at most
	files       int     // limit of the proxy's descriptors; 0 for our own
	small       bool    // receive buffers of 4 KiB
	play        func(a *attacker)
	// life is how long the proxy may keep a connection; zero for any time.
	life time.Duration
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
	stuck = 200
	// stuckOpens is low because each answer moves megabytes until it is stuck.
	stuckOpens = 20
)

// attacks returns all attacks; most is the number of connections that descriptors allow.
func attacks(most int) []attack {
	return append(append(slow(most), bombs()...), targets()...)
}

// slow returns the attacks that hold connections.
func slow(most int) []attack {
	return []attack{
		{name: "slow-head", about: "a byte of a field every 2.5 s", conns: most, opens: fastOpens, life: timeout,
			play: func(a *attacker) { a.say(openHead()); a.drip("a", everyPiece) }},
		{name: "slow-body", about: "a byte of an upload every 2.5 s", conns: most, opens: fastOpens, life: 10 * time.Second, // the span of BODY_MIN_RATE
			play: func(a *attacker) { a.say(post("100000")); a.drip("a", everyPiece) }},
		{name: "slow-empty", about: "an empty line every 2.5 s", conns: most, opens: fastOpens, life: timeout,
			play: func(a *attacker) { a.drip("\r\n", everyPiece) }},
		{name: "idle", about: "sends nothing", conns: most, opens: fastOpens, life: timeout,
			play: func(a *attacker) { a.answer() }},
		{name: "flood", about: "connects and closes", conns: most, opens: fastOpens, life: time.Second,
			play: func(*attacker) {}},
		{name: "stuck-read", about: "requests 10 MB and does not read", conns: stuck, opens: stuckOpens, life: timeout, small: true,
			play: func(a *attacker) { a.say(get("/bytes/10000000")); a.hold(timeout + 4*time.Second) }},
		{name: "slow-read", about: "reads 512 bytes of 10 MB every second", conns: stuck, opens: stuckOpens, small: true,
			play: func(a *attacker) { a.say(get("/bytes/10000000")); a.sip(512, time.Second) }},
		{name: "files-256", about: "500 idle connections, the proxy has 256 descriptors", conns: 500, opens: 500, files: 256, life: timeout,
			play: func(a *attacker) { a.answer() }},
	}
}

// bombs returns the attacks with messages that might be expensive.
func bombs() []attack {
	bomb := func(name, about string, opens float64, text []byte) attack {
		return attack{name: name, about: about, conns: holding, opens: opens, life: timeout,
			// A connection that is kept alive is no attack, so the attacker leaves after the answer.
			play: func(a *attacker) { a.say(text); a.answer() }}
	}
	return []attack{
		bomb("long-line", "a field of 100 kB", 200, longLine(100_000)),
		bomb("many-fields", "10,000 fields", 200, manyFields(10_000)),
		bomb("long-name", "a field name of 1 MB", 20, longName(1<<20)),
		bomb("tiny-chunks", "65,536 chunks of a byte", 10, tinyChunks(1<<16)),
		bomb("extension", "a chunk extension of 64 KiB", 200, longExtension(64<<10)),
		bomb("empty-lines", "2000 empty lines", 500, emptyLines(2000)),
		{name: "huge-length", about: "Content-Length 2^63-1", conns: holding, opens: 100, life: 10 * time.Second,
			play: func(a *attacker) { a.say(post("9223372036854775807")); a.answer(); a.ended() }},
		{name: "pipeline", about: "10,000 requests at once, reads no answer", conns: 20, opens: 0.5, life: 2 * timeout, small: true,
			play: func(a *attacker) { go a.say(pipeline(10_000)); a.hold(4 * timeout) }},
	}
}

// targets returns the attacks that make the target misbehave.
func targets() []attack {
	ask := func(name, about, path string, opens float64) attack {
		return attack{name: name, about: about, conns: holding, opens: opens, life: timeout,
			play: func(a *attacker) { a.say(get(path)); a.answer() }}
	}
	return []attack{
		ask("target-never", "the target never answers", "/never", 100),
		ask("target-drip", "the target sends a byte every second", "/drip", 100),
		ask("target-cut", "the target closes in the middle of its answer", "/cut", 200),
		ask("target-junk", "the target does not send HTTP", "/junk", 200),
		ask("target-interim", "the target sends 1000 interim answers", "/interim/1000", 50),
	}
}
