package wire

import (
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

// Claims about the origin of requests that are dropped are counted, and when a
// private address makes them the log says what is likely missing.
func TestDisbelief(t *testing.T) {
	t.Parallel() // housekeeping looks once a second
	serve(t, echoes).play(`
		3 x GET / X-Forwarded-For=6.6.6.6 X_Real_IP=6.6.6.6 Accept=a -> 200
		metrics dropped_fields_total{reason="untrusted"}=6
		logged level=WARN "set TRUSTED_PROXIES" address=127.0.0.1`)
	serve(t, echoes, "TRUSTED_PROXIES", "127.0.0.0/8").play(`
		GET / X-Forwarded-For=6.6.6.6 -> 200; metrics dropped_fields_total{reason="untrusted"}=0`)
}

// A trusted proxy that contradicts itself is told in the log, not by refusing its requests: clients
// count by X-Forwarded-For.
func TestDifferingOrigins(t *testing.T) {
	t.Parallel() // housekeeping looks once a second
	r := startRules(t, `rules: [{id: ip, key: [ip], limit: {algorithm: fixed, limit: 2, window: C}}]`,
		"TRUSTED_PROXIES", "127.0.0.0/8")
	r.play(`
		GET / X-Forwarded-For=192.0.2.1 Forwarded=for=192.0.2.1 -> 200 ip 1
		GET / Forwarded=for=192.0.2.1 -> 200 ip 0
		GET / X-Real-IP=192.0.2.1 -> 429 ip 0
		GET / X-Real-IP=192.0.2.2 -> 200 ip 1
		GET / X-Forwarded-For=64:ff9b::192.0.2.2 -> 200 ip 0`)
	const differ = "X-Forwarded-For and Forwarded of a trusted proxy name different clients"
	r.playf(`logged 0 %q`, differ) // of addresses that are the same
	r.play(`
		GET / X-Forwarded-For=192.0.2.3 Forwarded=for=192.0.2.4 -> 200 ip 1
		GET / X-Forwarded-For=192.0.2.3 Forwarded=for=192.0.2.5 -> 200 ip 0
		GET / X-Forwarded-For=192.0.2.3 Forwarded=for=192.0.2.6 -> 429 ip 0`)
	r.playf(`logged %q`, differ)
}

// That is logged once a minute.
func TestDifferingOriginsWarnings(t *testing.T) {
	var p peerWarning
	var text testkit.Log
	log := slog.New(slog.NewTextHandler(&text, nil))
	now := time.Date(2026, 1, 19, 16, 30, 0, 0, time.UTC)
	for i, warns := range []bool{true, false, true} {
		before := len(text.String())
		p.note(netip.MustParseAddr("192.0.2.99"))
		warnDiffering(now.Add(time.Duration(i)*(time.Minute-time.Duration(2-i))), log, &p)
		equal(t, fmt.Sprint("warning ", i), len(text.String()) > before, warns)
	}
}

// The warning comes once an hour, and for addresses at which a proxy of one's own
// may be.
func TestDisbeliefWarnings(t *testing.T) {
	var d claimsWarning
	var text testkit.Log
	log := slog.New(slog.NewTextHandler(&text, nil))
	now := time.Date(2026, 1, 19, 16, 30, 0, 0, time.UTC)
	for _, step := range []struct {
		after time.Duration
		from  string // "": nobody
		warns bool
	}{
		{0, "", false},
		{0, "192.0.2.7", false},
		{0, "2001:db8::1", false},
		{time.Second, "10.1.2.3", true},
		{time.Second, "10.1.2.3", false},
		{59 * time.Minute, "172.16.0.1", false},
		{time.Minute, "", false}, // what was told before is not told late
		{0, "192.168.1.1", true},
		{time.Hour, "fd00::1", true},
		{time.Hour, "::1", true},
		{time.Hour, "127.0.0.2", true},
		{time.Hour, "172.32.0.1", false},
	} {
		now = now.Add(step.after)
		before := len(text.String())
		if step.from != "" {
			d.note(netip.MustParseAddr("192.0.2.99"))
			d.note(netip.MustParseAddr(step.from))
			d.note(netip.MustParseAddr("192.0.2.99"))
		}
		d.warn(now, log)
		said := text.String()[before:]
		if (said != "") != step.warns || said != "" && !strings.Contains(said, "address="+step.from+"\n") {
			t.Errorf("%v, %q: logged %q", now, step.from, said)
		}
	}
}

// Claims are dropped on the hot path.
func TestDisbeliefAllocatesNothing(t *testing.T) {
	var d claimsWarning
	for _, from := range []string{"192.0.2.1", "10.0.0.1"} {
		addr := netip.MustParseAddr(from)
		d.note(addr)
		equal(t, "allocations for a request from "+from, testing.AllocsPerRun(1000, func() { d.note(addr) }), 0)
	}
}

// Names with underscores are forwarded when they are wanted, but for those that a
// target could take for a field of the connection or for an untrusted claim. What
// is dropped is counted.
func TestUnderscoredFields(t *testing.T) {
	for _, test := range []struct {
		word, forwarded string
		dropped         int
	}{
		{"drop", "Accept", 5},
		{"keep", "X_Plan Accept", 3},
	} {
		const ours = "X-Forwarded-For X-Forwarded-Proto X-Forwarded-Host CDN-Loop"
		serve(t, each(func(c *targetConn, s *seen) {
			var names []string
			for _, f := range s.head.Fields {
				names = append(names, string(f.Name))
			}
			c.say(answerOf(strings.Join(names, " ")))
		}), "UNDERSCORED_FIELDS", test.word, "VIA_NAME", "off").playf(`
			GET / X_Plan=1 X.Plan=1 Transfer_Encoding=chunked Content_Length=5 Connection=X_Hop X_Hop=1 X_Forwarded_For=6.6.6.6 Accept=a
			client -> 200 ="Host %s %s"
			metrics dropped_fields_total{reason="name"}=%d dropped_fields_total{reason="untrusted"}=1`,
			test.forwarded, ours, test.dropped)
	}
}

// What is wrong with the answers of a target is logged, once a minute for each target.
func TestGarbledAnswersAreLogged(t *testing.T) {
	t.Parallel()
	for text, reason := range map[string]string{"220 mail ready\r\n": "",
		"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64":                  "looks like HTTP/2",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab":           "Content-Length",
		"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n": "not asked for"} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel() // housekeeping looks once a second
			r := serve(t, says(text))
			const logged = "The answer of a target is not valid HTTP"
			r.playf(`a GET / -> 502; logged %q
				b*8 GET / -> 502 # on both loops`, logged)
			r.until("housekeeping has seen them", func() bool {
				for _, s := range r.loops {
					for _, seen := range *s.seen.Load() {
						if seen.garbled.Load() != nil {
							return false
						}
					}
				}
				return true
			})
			r.playf(`logged 1 %q; logged 1 %[1]q target=%s %q`, logged, r.targets["target"].url(), reason)
		})
	}
}

// A request that has passed a proxy of the same name is logged.
func TestLoopIsLogged(t *testing.T) {
	t.Parallel() // housekeeping looks once a second
	serve(t, echoes).play(`
		GET / Via="1.1 weir" -> 508; logged "Requests had passed this proxy before" VIA_NAME count=1`)
}
