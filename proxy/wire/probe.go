package wire

import "time"

// A client that has closed its connection looks like one that has only finished sending and waits
// for the answer: both have sent a FIN. But the kernel of the former answers further bytes with a
// reset, after which a write fails. So while a client sends no more and its request was not sent to
// a target, the first bytes of the answer, which are the same for all answers, are written early,
// one at a time. A client that reads gets the answer as usual.

// probeText is how all answers begin.
const probeText = "HTTP/1.1"

// probePause is the pause after the first probe. It doubles with each further one.
const probePause = 20 * time.Millisecond

// probe begins to check whether a client that has ended is still there.
func (c *connection) probe(now time.Time) {
	if c.probed > 0 || c.closed || !c.x.Unsent() {
		return
	}
	if c.probes == nil {
		c.probes = c.server.loop.NewAlarm(func(now time.Time) {
			if c.probed > 0 && !c.closed && c.x.Unsent() {
				c.writeProbe(now)
			}
		})
	}
	c.writeProbe(now)
}

// writeProbe writes the next byte of the answer.
func (c *connection) writeProbe(now time.Time) {
	c.conn.Write([]byte(probeText[c.probed : c.probed+1]))
	if c.probed++; c.probed < len(probeText) {
		c.probes.Set(now.Add(probePause << (c.probed - 1)))
	}
}
