package redis

import (
	"bytes"
	"time"

	"weir/proxy/store"
)

const (
	// pollPause is how often documents and edits are looked at: a change is to be
	// in force everywhere within a second.
	pollPause = 250 * time.Millisecond
	// looksMissedMax is how many looks at documents in a row may fail until the log says
	// so: when Redis is unavailable the breaker reports it first.
	looksMissedMax = 12
	// countBytes is how much of the count of edits is read, whatever there is.
	countBytes = 20
)

// Watch has changed called with the document called name as it is now, and again
// within a second of each change by anybody, also when it was lost: then its
// version is 0. (Over a slow link a change takes as long as its transfer.) It is
// called from a goroutine of the client, one call at a time, and not while Redis is
// unavailable. Only a document that has changed is read; see [mark] for what a change is.
func (c *Client) Watch(name string, changed func(store.Document)) {
	c.mu.Lock()
	c.watched = append(c.watched, &watched{name: c.cfg.KeyPrefix + name, changed: changed})
	c.mu.Unlock()
	c.look()
}

// watched is a document that somebody wants to know of.
//
// Owned by the goroutine of keepReading.
type watched struct {
	name    string // in full
	changed func(store.Document)
	told    bool
	last    mark
}

// look has the watcher look at documents at once.
func (c *Client) look() {
	select {
	case c.poll <- struct{}{}:
	default:
	}
}

// keepReading looks at the watched documents again and again.
func (c *Client) keepReading() {
	tick := time.NewTicker(pollPause)
	defer tick.Stop()
	missed := 0
	for {
		select {
		case <-c.stopping.Done():
			return
		case <-tick.C:
		case <-c.poll:
		}
		err := c.lookNow()
		switch {
		case c.breaker.away.Load(), c.stopping.Err() != nil:
			continue // the breaker has reported it
		case err != nil:
			missed++
			if missed == looksMissedMax {
				c.cfg.Log.Warn("Documents cannot be read, decisions are not affected", "reason", err)
			}
			continue
		case missed >= looksMissedMax:
			c.cfg.Log.Info("Documents can be read again")
		}
		missed = 0
	}
}

// lookNow looks at everything that is watched once, and tells what has changed.
func (c *Client) lookNow() error {
	c.mu.Lock()
	all := c.watched
	c.mu.Unlock()
	if len(all) == 0 {
		return nil
	}
	names := make([]string, len(all))
	for i, w := range all {
		names[i] = w.name
	}
	marks, err := c.marks(names)
	if err != nil {
		return err
	}
	for i, w := range all {
		if w.told && w.last == marks[i] {
			continue
		}
		doc, m, err := c.fetch(w.name, marks[i])
		if err != nil {
			return err
		}
		w.told, w.last = true, m
		w.changed(doc)
	}
	return nil
}

// keepCounting looks at the count of edits again and again, over the connection of
// decisions: so an idle proxy notices, too, that Redis is away.
func (c *Client) keepCounting() {
	tick := time.NewTicker(pollPause)
	defer tick.Stop()
	var edits []byte
	for {
		select {
		case <-c.stopping.Done():
			return
		case <-tick.C:
		}
		if count, ok := c.countEdits(); ok && !bytes.Equal(edits, count) {
			edits = count
			c.Forgetful()
		}
	}
}

// countEdits reads the count of edits, and tells the breaker how it went.
func (c *Client) countEdits() (count []byte, ok bool) {
	loaded := c.conn.Load()
	if loaded == nil || c.breaker.away.Load() {
		return nil, false
	}
	conn := *loaded
	ctx, cancel := c.within()
	defer cancel()
	name := c.cfg.KeyPrefix + editsName
	sent := time.Now()
	count, err := conn.Do(ctx, conn.B().Getrange().Key(name).Start(0).End(countBytes-1).Build()).AsBytes()
	if err != nil && c.faultOf(err) != faultItem {
		c.judge(sent, name, err)
		return nil, false
	}
	c.breaker.answered()
	return count, true
}
