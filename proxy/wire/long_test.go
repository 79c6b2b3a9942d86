package wire

import (
	"testing"
	"time"

	"weir/proxy/targets/gate"
)

// longKinds are requests that may hold their connections for long because of what their client sends.
var longKinds = map[string]string{
	"upgrades": `GET /held upgrade`,
	"logins":   `GET /held Authorization="Negotiate abc"`,
	"uploads":  `POST /held body*2000`,
	"chunked":  `POST /held chunked*2000`,
}

// A target that treats such a request as any other works on no more of them than there are places, and
// they wait in the line like others. Their connections are used again.
func TestLongRequestsNeedPlaces(t *testing.T) {
	for name, asked := range longKinds {
		t.Run(name, func(t *testing.T) {
			r := serveWith(t, gated(3), holds, "EVENT_LOOPS", "1", "BODY_BUFFER_BYTES", "1KiB")
			r.playf(`a*12 %s; target gets 3; line 9; target gets nothing`, asked)
			equal(t, "requests in flight", r.gate().InFlight(), 3)
			r.play(`target answers 12; a* -> 200; rest; taken 0; metrics upstream_streams=0`)
		})
	}
}

// Without a place they are refused like others. The client may go on with its connection.
func TestLongRequestsAreShed(t *testing.T) {
	for name, asked := range longKinds {
		t.Run(name, func(t *testing.T) {
			holding(t, gatedFor(gate.On, 5*time.Millisecond), "BODY_BUFFER_BYTES", "1KiB").playf(`
				a %s -> 503 X-Weir-Reason=gate stays
				target answers; held -> 200; a GET / -> 200; rest`, asked)
		})
	}
}

// Every request on a private connection needs a place, too. One that is refused does not end the
// client's login.
func TestPrivateRequestsNeedPlaces(t *testing.T) {
	serveWith(t, gated(3), holds, "EVENT_LOOPS", "1").play(`
		a*8 GET / Authorization="Negotiate abc" -> 200; target gets 8
		a* GET /held; target gets 3; line 5; until upstream_streams=5 # they are that between requests
		a8 resets; line 4
		target answers 7; a* -> 200; target opened 8; rest`)
}

func TestPrivateConnectionOutlivesRefusals(t *testing.T) {
	r := holding(t, gatedFor(gate.On, 5*time.Millisecond))
	r.play(`target answers; held -> 200; private GET / Authorization="Negotiate abc" -> 200; target gets /`)
	opened := r.targets["target"].opened.Load()
	r.play(`
		held GET /held; target gets /held; private GET / -> 503
		target answers; held -> 200; private GET / -> 200; target gets /; until upstream_streams=1`)
	if n := r.targets["target"].opened.Load(); n > opened+1 {
		t.Errorf("%d connections to the target were opened", n-opened)
	}
}

// An upload is served when its own target has a place, whichever that is.
func TestUploadStaysWithItsTarget(t *testing.T) {
	holdBoth(t).play(`c POST / body*2000; line 1; a answers; b answers; c,held1,held2 -> 200`)
}

// gatedFor gives each target one place, for which requests wait for a limited time.
func gatedFor(mode gate.Mode, wait time.Duration) func(c *Config) {
	return func(c *Config) {
		gated(1)(c)
		c.Gate.Mode, c.Gate.Wait = mode, wait
	}
}
