package redis

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"weir/proxy/store"
)

const (
	documentBytesMax = 4 << 20
	// pollPause is how often documents and edits are looked at: a change is to be
	// in force everywhere within a second.
	pollPause = 250 * time.Millisecond
)

// Foreign is the version of a document that something else than a proxy has
// written.
const Foreign = -1

// Read returns the document called name; one that was never written has version 0
// and no body, one that no proxy has written has version Foreign. The error is
// that Redis is away.
func (c *Client) Read(name string) (store.Document, error) {
	ctx, cancel := c.within()
	defer cancel()
	docs, err := c.read(ctx, []string{c.cfg.KeyPrefix + name})
	if err != nil {
		return store.Document{}, fmt.Errorf("read document %s: %w", name, err)
	}
	return docs[0], nil
}

// read reads documents by their full names, and tells the breaker how it went.
func (c *Client) read(ctx context.Context, names []string) ([]store.Document, error) {
	loaded := c.conn.Load()
	if loaded == nil || c.breaker.away.Load() {
		return nil, errAway
	}
	conn := *loaded
	commands := make([]rueidis.Completed, len(names))
	for i, name := range names {
		commands[i] = conn.B().Get().Key(name).Build()
	}
	sent := time.Now()
	docs := make([]store.Document, len(names))
	for i, reply := range conn.DoMulti(ctx, commands...) {
		raw, err := reply.AsBytes()
		switch fault := faultOf(err); {
		case rueidis.IsRedisNil(err):
		case fault == faultItem: // a key of another type
			docs[i] = store.Document{Version: Foreign}
		case err != nil:
			c.judge(sent, names[i], err)
			return nil, err
		default:
			docs[i] = documentOf(raw)
		}
	}
	c.breaker.answered()
	return docs, nil
}

// documentOf is a document as it is kept.
func documentOf(raw []byte) store.Document {
	if doc, ok := documentBody(raw); ok {
		return doc
	}
	return store.Document{Body: raw, Version: Foreign}
}

// CompareAndSet makes body, which must be JSON, the document called name if its
// version still is version: 0 for one that was never written, Foreign for one that
// no proxy has written. It returns the document as it is then, and whether it was
// written. The error is that Redis is away, and then it may or may not have been
// written; or that the body is larger than 4 MiB.
func (c *Client) CompareAndSet(name string, version int64, body []byte) (store.Document, bool, error) {
	if len(body) > documentBytesMax {
		return store.Document{}, false, fmt.Errorf("write document %s: must be at most %d bytes, is %d", name, documentBytesMax, len(body))
	}
	reply, err := c.do(&call{script: c.scripts.document, keys: []string{c.cfg.KeyPrefix + name},
		args: []string{strconv.FormatInt(version, 10), string(body)}})
	if err != nil {
		return store.Document{}, false, fmt.Errorf("write document %s: %w", name, err)
	}
	doc, written, err := readWritten(reply)
	if err != nil {
		return store.Document{}, false, fmt.Errorf("write document %s: %w", name, err)
	}
	if written {
		c.look()
	}
	return doc, written, nil
}

// readWritten reads the reply of document.lua.
func readWritten(reply rueidis.RedisMessage) (doc store.Document, written bool, err error) {
	values, err := reply.ToArray()
	if err != nil || len(values) != 3 {
		return doc, false, errReply
	}
	ok, err1 := values[0].AsInt64()
	doc.Version, err = values[1].AsInt64()
	body, err2 := values[2].AsBytes()
	if err != nil || err1 != nil || err2 != nil {
		return doc, false, errReply
	}
	if len(body) > 0 {
		doc.Body = body
	}
	return doc, ok == 1, nil
}

// Watch has changed called with the document called name as it is now, and again
// within a second of each change by anybody, also when it was lost: then its
// version is 0. It is called from a goroutine of the client, one call at a time,
// and not while Redis is away.
func (c *Client) Watch(name string, changed func(store.Document)) {
	c.mu.Lock()
	c.watched[c.cfg.KeyPrefix+name] = &watched{changed: changed}
	c.mu.Unlock()
	c.look()
}

// watched is a document that somebody wants to know of.
//
// Owned by the goroutine of keepWatching.
type watched struct {
	changed func(store.Document)
	told    bool
	last    store.Document
}

func (w *watched) tell(doc store.Document) {
	if w.told && w.last.Version == doc.Version && bytes.Equal(w.last.Body, doc.Body) {
		return
	}
	w.told, w.last = true, doc
	w.changed(doc)
}

// look has the watcher look at once.
func (c *Client) look() {
	select {
	case c.poll <- struct{}{}:
	default:
	}
}

// keepWatching looks at documents and at the count of edits again and again. It
// notices on an idle proxy, too, that Redis is away.
func (c *Client) keepWatching() {
	tick := time.NewTicker(pollPause)
	defer tick.Stop()
	var edits []byte
	for {
		select {
		case <-c.stopping.Done():
			return
		case <-tick.C:
		case <-c.poll:
		}
		edits = c.lookNow(edits)
	}
}

// lookNow reads everything that is watched once, and returns the count of edits.
func (c *Client) lookNow(edits []byte) []byte {
	names := []string{c.cfg.KeyPrefix + editsName}
	c.mu.Lock()
	for name := range c.watched {
		names = append(names, name)
	}
	c.mu.Unlock()
	slices.Sort(names[1:])
	ctx, cancel := c.within()
	defer cancel()
	docs, err := c.read(ctx, names)
	if err != nil {
		return edits
	}
	if !bytes.Equal(edits, docs[0].Body) {
		c.Forgetful()
	}
	for i, name := range names[1:] {
		c.mu.Lock()
		w := c.watched[name]
		c.mu.Unlock()
		w.tell(docs[1+i])
	}
	return docs[0].Body
}
