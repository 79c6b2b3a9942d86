package loop

// A WriteBatching says how long Conn.Write collects, so that several writes take one system call.
type WriteBatching uint8

const (
	BatchNone  WriteBatching = iota // not at all
	BatchTurn                       // until the end of the turn
	BatchRound                      // until the other connections that are ready had their turns; this wakes the loop
)

// SetBatch sets how long Write collects from now on: at the end of a turn, its last value counts. What exceeds
// Config.OutboundMax is sent immediately, and so is everything when the connection ends other than by Abort.
func (c *Conn) SetBatch(b WriteBatching) { c.batch = b }

// collects reports whether Write collects n further bytes.
func (c *Conn) collects(n int) bool {
	if c.batch == BatchNone || c.Unsent() > 0 && !c.batched() || c.Unsent()+n > c.loop.g.cfg.OutboundMax {
		return false
	}
	if !c.inTurn {
		c.inTurn = true
		c.loop.turnBatch = append(c.loop.turnBatch, c)
	}
	return true
}

// batched reports whether sendBatch will be called.
func (c *Conn) batched() bool { return c.inTurn || c.inRound }

// sendBatch sends what was collected.
func (c *Conn) sendBatch() {
	switch {
	case c.state == stateEnrolling:
		c.watch()
	case c.state != stateClosed:
		c.flush()
	}
}

// endTurn sends what was collected in this turn, except for what may wait until the end of the round.
// It reports whether something was sent.
func (l *Loop) endTurn() (sent bool) {
	for _, c := range l.turnBatch {
		switch c.inTurn = false; {
		case c.batch != BatchRound:
			c.sendBatch()
			sent = true
		case !c.inRound:
			c.inRound = true
			l.roundBatch = append(l.roundBatch, c)
			l.wake()
		}
	}
	clear(l.turnBatch)
	l.turnBatch = l.turnBatch[:0]
	return sent
}

// endRound sends what was collected until now.
func (l *Loop) endRound() {
	for _, list := range []*[]*Conn{&l.turnBatch, &l.roundBatch} {
		for _, c := range *list {
			c.inTurn, c.inRound = false, false
			c.sendBatch()
		}
		clear(*list)
		*list = (*list)[:0]
	}
}
