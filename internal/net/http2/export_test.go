package http2

import "fmt"

// Unbalanced returns what is wrong with the accounts of what the peer may send, or "". Each byte of a window may be
// sent, or is to come in a frame that has begun, or is held by the caller, or is consumed and not given back yet.
func (c *Conn) Unbalanced() string {
	held := c.credit + c.body.left
	for i := range c.streams {
		s := &c.streams[i]
		held += s.held
		sum := s.recv + s.credit + s.held
		if c.body.id == s.id {
			sum += c.body.left
		}
		if s.recv < 0 || sum != c.limits.Window && !s.dropped {
			return fmt.Sprintf("stream %d: %d may be sent of %d, %d held, %d to give back, body %+v",
				s.id, s.recv, c.limits.Window, s.held, s.credit, c.body)
		}
		if i > 0 && c.streams[i-1].id >= s.id || s.ended && s.peerEnded {
			return fmt.Sprintf("stream %d is in the table", s.id)
		}
	}
	if c.recv < 0 || c.send < 0 || c.recv+held != c.limits.ConnWindow {
		return fmt.Sprintf("%d may be sent of %d, %d held; we may send %d", c.recv, c.limits.ConnWindow, held, c.send)
	}
	return ""
}

// SetLastID makes c believe that id was the last stream.
func (c *Conn) SetLastID(id uint32) { c.lastID = id }

// Remembered returns how many streams and resets c has memory for.
func (c *Conn) Remembered() (streams, resets int) { return cap(c.streams), len(c.reset) }
