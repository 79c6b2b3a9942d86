package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"weir/proxy/store"
)

const (
	// headBytes is how much of each document is read to detect a change.
	headBytes = 256
	// wrapBytesMax bounds what document.lua writes around a body.
	wrapBytesMax = 64
	// valueBytesMax is the size of the largest value that is a document.
	valueBytesMax = store.DocumentBytesMax + wrapBytesMax
	// versionDigitsMax is as in document.lua.
	versionDigitsMax = 15
)

// A mark distinguishes the values of a document without reading them completely. It has the
// version, the length and the beginning; so a longer body must begin with something unique,
// such as the time of the change.
type mark struct {
	head    string // the first headBytes
	length  int64  // 0: there is no document
	foreign bool   // a key of another type
}

// Read may take up to 34 s over a slow link. A document that no proxy has written has no body
// if it is too large.
func (be *backend) Read(ctx context.Context, name string) (store.Document, error) {
	name = be.cfg.KeyPrefix + name
	marks, err := be.marks(ctx, []string{name})
	if err != nil {
		return store.Document{}, err
	}
	m := marks[0]
	switch {
	case m.foreign, m.length > valueBytesMax:
		return store.Document{Version: store.UnknownVersion}, nil
	case m.length == int64(len(m.head)):
		return documentOf([]byte(m.head)), nil
	}
	conn, err := be.documents.connected()
	if err != nil {
		return store.Document{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, store.DocumentTimeout(int(m.length)))
	defer cancel()
	raw, err := conn.Do(ctx, conn.B().Get().Key(name).Build()).AsBytes()
	if err != nil && !rueidis.IsRedisNil(err) {
		return store.Document{}, err
	}
	return documentOf(raw), nil
}

func (be *backend) Marks(ctx context.Context, names []string) ([]string, error) {
	full := make([]string, len(names))
	for i, name := range names {
		full[i] = be.cfg.KeyPrefix + name
	}
	marks, err := be.marks(ctx, full)
	for i, m := range marks {
		full[i] = fmt.Sprint(m.length, m.foreign, m.head)
	}
	return full, err
}

// marks reads the marks of documents by their full names.
func (be *backend) marks(ctx context.Context, names []string) ([]mark, error) {
	conn, err := be.documents.connected()
	if err != nil {
		return nil, err
	}
	commands := make([]rueidis.Completed, 0, 2*len(names))
	for _, name := range names {
		commands = append(commands, conn.B().Getrange().Key(name).Start(0).End(headBytes-1).Build(),
			conn.B().Strlen().Key(name).Build())
	}
	ctx, cancel := context.WithTimeout(ctx, store.DocumentTimeout(0))
	defer cancel()
	replies := conn.DoMulti(ctx, commands...)
	marks := make([]mark, len(names))
	for i := range marks {
		m := &marks[i]
		var err1, err2 error
		m.head, err1 = replies[2*i].ToString()
		m.length, err2 = replies[2*i+1].AsInt64()
		switch err := errors.Join(err1, err2); {
		case be.classOf(err1) == store.ItemFault && be.classOf(err2) == store.ItemFault:
			*m = mark{foreign: true}
		case err != nil:
			return nil, err
		}
	}
	return marks, nil
}

// documentOf parses a document as stored. What document.lua has not written is foreign.
func documentOf(raw []byte) store.Document {
	rest, ok := bytes.CutPrefix(raw, []byte(`{"version":`))
	number, rest, parted := bytes.Cut(rest, []byte(`,"document":`))
	rest, closed := bytes.CutSuffix(rest, []byte("}"))
	version, err := strconv.ParseUint(string(number), 10, 63) // digits only
	switch {
	case len(raw) == 0:
		return store.Document{}
	case !ok || !parted || !closed || len(number) > versionDigitsMax || err != nil || version < 1:
		return store.Document{Body: raw, Version: store.UnknownVersion}
	}
	return store.Document{Body: rest, Version: int64(version)}
}

func (be *backend) CompareAndSet(ctx context.Context, name string, version int64, body []byte) (int64, error) {
	conn, err := be.documents.connected()
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, store.DocumentTimeout(len(body)))
	defer cancel()
	set := call{script: be.scripts.document, keys: []string{be.cfg.KeyPrefix + name},
		args: []string{strconv.FormatInt(version, 10), string(body), strconv.Itoa(valueBytesMax)}}
	// The full script is sent: it is short, and the body must not be sent twice.
	return conn.Do(ctx, set.command(conn.B(), true)).AsInt64()
}
