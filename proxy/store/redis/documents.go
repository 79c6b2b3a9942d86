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

// A mark tells values of a document apart without reading all of them. Two that have
// the same version, length and first headBytes are taken for one: so a body that is
// longer has to begin with something that no other has, such as the time of the change.
type mark struct {
	head    string // its first headBytes
	length  int64  // 0: there is none
	foreign bool   // a key of another type
}

// Read waits for Redis up to 34 s over a slow link. A document that no proxy has written
// has no body if it is too large for one.
func (c *client) Read(ctx context.Context, name string) (store.Document, error) {
	name = c.cfg.KeyPrefix + name
	marks, err := c.marks(ctx, []string{name})
	if err != nil {
		return store.Document{}, err
	}
	return c.fetch(ctx, name, marks[0])
}

// Marks returns the marks of documents as texts.
func (c *client) Marks(ctx context.Context, names []string) ([]string, error) {
	full := make([]string, len(names))
	for i, name := range names {
		full[i] = c.cfg.KeyPrefix + name
	}
	marks, err := c.marks(ctx, full)
	for i, m := range marks {
		full[i] = fmt.Sprint(m.length, m.foreign, m.head)
	}
	return full, err
}

// marks reads the marks of documents by their full names.
func (c *client) marks(ctx context.Context, names []string) ([]mark, error) {
	conn, err := c.documents(ctx)
	if err != nil {
		return nil, err
	}
	commands := make([]rueidis.Completed, 0, 2*len(names))
	for _, name := range names {
		commands = append(commands, conn.B().Getrange().Key(name).Start(0).End(headBytes-1).Build(), conn.B().Strlen().Key(name).Build())
	}
	ctx, cancel := forDocument(ctx, 0)
	defer cancel()
	replies := conn.DoMulti(ctx, commands...)
	marks := make([]mark, len(names))
	for i := range marks {
		m := &marks[i]
		var err1, err2 error
		m.head, err1 = replies[2*i].ToString()
		m.length, err2 = replies[2*i+1].AsInt64()
		switch err := errors.Join(err1, err2); {
		case c.classOf(err1) == store.ItemFault && c.classOf(err2) == store.ItemFault:
			*m = mark{foreign: true}
		case err != nil:
			return nil, err
		}
	}
	return marks, nil
}

// fetch returns the document of that full name, of which m was the mark.
func (c *client) fetch(ctx context.Context, name string, m mark) (store.Document, error) {
	switch {
	case m.foreign, m.length > valueBytesMax:
		return store.Document{Version: store.Foreign}, nil
	case m.length == int64(len(m.head)):
		return documentOf([]byte(m.head)), nil
	}
	conn, err := c.documents(ctx)
	if err != nil {
		return store.Document{}, err
	}
	ctx, cancel := forDocument(ctx, int(m.length))
	defer cancel()
	raw, err := conn.Do(ctx, conn.B().Get().Key(name).Build()).AsBytes()
	if err != nil && !rueidis.IsRedisNil(err) {
		return store.Document{}, err
	}
	return documentOf(raw), nil
}

// documentOf is a document as it is kept.
func documentOf(raw []byte) store.Document {
	if len(raw) == 0 {
		return store.Document{}
	}
	if doc, ok := documentBody(raw); ok {
		return doc
	}
	return store.Document{Body: raw, Version: store.Foreign}
}

// CompareAndSet runs document.lua.
func (c *client) CompareAndSet(ctx context.Context, name string, version int64, body []byte) (int64, error) {
	conn, err := c.documents(ctx)
	if err != nil {
		return 0, err
	}
	ctx, cancel := forDocument(ctx, len(body))
	defer cancel()
	set := call{script: c.scripts.document, keys: []string{c.cfg.KeyPrefix + name},
		args: []string{strconv.FormatInt(version, 10), string(body), strconv.Itoa(valueBytesMax)}}
	// In full: the script is short, and the body is not sent twice for it.
	return conn.Do(ctx, set.command(conn.B(), true)).AsInt64()
}

// documents returns the connection for documents. Decisions have another: neither a
// large document nor a failure here delays them.
func (c *client) documents(ctx context.Context) (rueidis.Client, error) {
	c.docMu.Lock()
	defer c.docMu.Unlock()
	if ctx.Err() != nil { // Close may have been here: nobody would close the connection
		return nil, errAway
	}
	if c.docConn == nil {
		cfg := c.cfg
		cfg.dialTimeout = documentTimeout
		conn, err := cfg.connect(documentTimeoutMax)
		if err != nil {
			return nil, fmt.Errorf("connect to redis for documents: %w", err)
		}
		c.docConn = conn
	}
	return c.docConn, nil
}

// forDocument is the time that an exchange about a document of that many bytes may
// take.
func forDocument(ctx context.Context, bytes int) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, documentTimeout+time.Duration(bytes)*time.Second/documentRate)
}
