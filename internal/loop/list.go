package loop

// connList has the connections of one loop, in the order of their arrival.
type connList struct{ head Conn }

func (l *connList) init() { l.head.prev, l.head.nextConn = &l.head, &l.head }

func (l *connList) add(c *Conn) {
	c.prev, c.nextConn = l.head.prev, &l.head
	c.prev.nextConn, l.head.prev = c, c
}

func (l *connList) remove(c *Conn) {
	if c.prev == nil { // not in it
		return
	}
	c.prev.nextConn, c.nextConn.prev = c.nextConn, c.prev
	c.prev, c.nextConn = nil, nil
}

func (l *connList) first() *Conn { return l.after(&l.head) }

func (l *connList) after(c *Conn) *Conn {
	if c.nextConn == &l.head {
		return nil
	}
	return c.nextConn
}
