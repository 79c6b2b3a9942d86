package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"weir/proxy/store"
)

const (
	// headBytes is how much of each document is read to see whether it has changed.
	headBytes = 256
	// wrapBytesMax bounds what the store writes around a body; see document.lua.
	wrapBytesMax = 64
	// valueBytesMax is the size of the largest value that is a document.
	valueBytesMax = store.DocumentBytesMax + wrapBytesMax
	// versionDigitsMax is as in document.lua.
	versionDigitsMax = 15
	// documentTimeout is how long an exchange about documents may take, and
	// documentRate, in bytes per second, the slowest link over which a large one passes.
	documentTimeout = 2 * time.Second
	documentRate    = 128 << 10
	// documentTimeoutMax is how long the largest document may take.
	documentTimeoutMax = documentTimeout + store.DocumentBytesMax/documentRate*time.Second
)

// Foreign is the version of a document that something else than a proxy has
// written.
const Foreign = -1

// A mark tells values of a document apart without reading all of them. Two that have
// the same version, length and first headBytes are taken for one: so a body that is
// longer has to begin with something that no other has, such as the time of the change.
type mark struct {
	head    string // its first headBytes
	length  int64  // 0: there is none
	foreign bool   // a key of another type
}

// markOf is the mark of a whole value.
func markOf(raw []byte) mark {
	return mark{head: string(raw[:min(len(raw), headBytes)]), length: int64(len(raw))}
}

// Read returns the document called name; one that was never written has version 0
// and no body, one that no proxy has written has version Foreign, and no body if it is
// too large for a document. It waits for Redis up to 34 s over a slow link, and is not
// for loops. The error is that Redis is away or does not answer.
func (c *Client) Read(name string) (store.Document, error) {
	name = c.cfg.KeyPrefix + name
	marks, err := c.marks([]string{name})
	if err != nil {
		return store.Document{}, fmt.Errorf("read document %s: %w", name, err)
	}
	doc, _, err := c.fetch(name, marks[0])
	if err != nil {
		return store.Document{}, fmt.Errorf("read document %s: %w", name, err)
	}
	return doc, nil
}

// marks reads the marks of documents by their full names.
func (c *Client) marks(names []string) ([]mark, error) {
	conn, err := c.documents()
	if err != nil {
		return nil, err
	}
	commands := make([]rueidis.Completed, 0, 2*len(names))
	for _, name := range names {
		commands = append(commands, conn.B().Getrange().Key(name).Start(0).End(headBytes-1).Build(), conn.B().Strlen().Key(name).Build())
	}
	ctx, cancel := c.forDocument(0)
	defer cancel()
	replies := conn.DoMulti(ctx, commands...)
	marks := make([]mark, len(names))
	for i := range marks {
		m := &marks[i]
		var err1, err2 error
		m.head, err1 = replies[2*i].ToString()
		m.length, err2 = replies[2*i+1].AsInt64()
		switch err := errors.Join(err1, err2); {
		case c.faultOf(err1) == faultItem && c.faultOf(err2) == faultItem:
			*m = mark{foreign: true}
		case err != nil:
			return nil, c.documentFault(err)
		}
	}
	return marks, nil
}

// fetch returns the document of that full name, of which m was the mark, and its mark
// by now.
func (c *Client) fetch(name string, m mark) (store.Document, mark, error) {
	switch {
	case m.foreign, m.length > valueBytesMax:
		return store.Document{Version: Foreign}, m, nil
	case m.length == int64(len(m.head)):
		return documentOf([]byte(m.head)), m, nil
	}
	conn, err := c.documents()
	if err != nil {
		return store.Document{}, m, err
	}
	ctx, cancel := c.forDocument(int(m.length))
	defer cancel()
	raw, err := conn.Do(ctx, conn.B().Get().Key(name).Build()).AsBytes()
	if err != nil && !rueidis.IsRedisNil(err) {
		return store.Document{}, m, c.documentFault(err)
	}
	return documentOf(raw), markOf(raw), nil
}

// documentOf is a document as it is kept.
func documentOf(raw []byte) store.Document {
	if len(raw) == 0 {
		return store.Document{}
	}
	if doc, ok := documentBody(raw); ok {
		return doc
	}
	return store.Document{Body: raw, Version: Foreign}
}

// CompareAndSet makes body, which must be JSON, the document called name if its
// version still is version: 0 for one that was never written, Foreign for one that
// no proxy has written. It returns the document as it is then, and whether it was
// written. It waits as Read does. The error is that Redis is away or does not answer,
// and then it may or may not have been written; or a store.SizeError.
func (c *Client) CompareAndSet(name string, version int64, body []byte) (store.Document, bool, error) {
	doc, written, err := c.compareAndSet(name, version, body)
	switch {
	case err != nil:
		return doc, false, fmt.Errorf("write document %s: %w", name, err)
	case written:
		return doc, true, nil
	}
	doc, err = c.Read(name)
	return doc, false, err
}

func (c *Client) compareAndSet(name string, version int64, body []byte) (doc store.Document, written bool, err error) {
	if err := store.CheckSize(body); err != nil {
		return doc, false, err
	}
	conn, err := c.documents()
	if err != nil {
		return doc, false, err
	}
	ctx, cancel := c.forDocument(len(body))
	defer cancel()
	set := call{script: c.scripts.document, keys: []string{c.cfg.KeyPrefix + name},
		args: []string{strconv.FormatInt(version, 10), string(body), strconv.Itoa(valueBytesMax)}}
	// In full: the script is short, and the body is not sent twice for it.
	doc.Version, err = conn.Do(ctx, set.command(conn.B(), true)).AsInt64()
	if err != nil {
		return doc, false, c.documentFault(err)
	}
	if doc.Version == 0 {
		return doc, false, nil
	}
	if len(body) > 0 {
		doc.Body = body
	}
	return doc, true, nil
}

// documents returns the connection for documents. Decisions have another: neither a
// large document nor a failure here delays them or opens the breaker. While the
// breaker is open nothing is asked here.
func (c *Client) documents() (rueidis.Client, error) {
	if c.breaker.away.Load() {
		return nil, errAway
	}
	c.docMu.Lock()
	defer c.docMu.Unlock()
	if c.stopping.Err() != nil { // Close may have been here: nobody would close the connection
		return nil, errAway
	}
	if c.docConn == nil {
		cfg := c.cfg
		cfg.dialTimeout = documentTimeout
		conn, err := cfg.connect(documentTimeoutMax)
		if err != nil {
			return nil, c.documentFault(fmt.Errorf("connect to redis for documents: %w", err))
		}
		c.docConn = conn
	}
	return c.docConn, nil
}

// forDocument is the time that an exchange about a document of that many bytes may
// take.
func (c *Client) forDocument(bytes int) (context.Context, context.CancelFunc) {
	return context.WithTimeout(c.stopping, documentTimeout+time.Duration(bytes)*time.Second/documentRate)
}

// documentFault counts an error about documents.
func (c *Client) documentFault(err error) error {
	c.counts.documentErrors.Inc()
	return err
}
