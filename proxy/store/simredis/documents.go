package simredis

import (
	"bytes"
	"fmt"
	"sync"

	"weir/proxy/store"
)

// documentsMax bounds the documents.
const documentsMax = 64

// A DocumentStore keeps small documents, such as ratelimiter:config, in memory. The zero value is
// empty and ready.
//
// Safe for concurrent use: mu guards docs; bodies are never changed.
type DocumentStore struct {
	mu   sync.Mutex
	docs map[string]store.Document
}

// Read implements [store.DocumentStore]. The error is always nil.
func (d *DocumentStore) Read(name string) (store.Document, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.docs[name], nil
}

// CompareAndSet implements [store.DocumentStore]. It copies the body. The error is a
// store.SizeError, or says that there are too many documents.
func (d *DocumentStore) CompareAndSet(name string, version int64, body []byte) (store.Document, bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	doc, known := d.docs[name]
	tooLarge := store.CheckSize(body)
	switch {
	case doc.Version != version:
		return doc, false, nil
	case tooLarge != nil:
		return doc, false, fmt.Errorf("write document %s: %w", name, tooLarge)
	case !known && len(d.docs) == documentsMax:
		return doc, false, fmt.Errorf("write document %s: there may be at most %d documents", name, documentsMax)
	}
	if d.docs == nil {
		d.docs = make(map[string]store.Document)
	}
	doc = store.Document{Body: bytes.Clone(body), Version: version + 1}
	d.docs[name] = doc
	return doc, true, nil
}

// Restore adds a document that another process has read, unless there is one with that name.
// It ignores invalid documents.
func (d *DocumentStore) Restore(name string, doc store.Document) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.docs[name]; known || doc.Version <= 0 || len(d.docs) == documentsMax ||
		store.CheckSize(doc.Body) != nil {
		return
	}
	if d.docs == nil {
		d.docs = make(map[string]store.Document)
	}
	d.docs[name] = store.Document{Body: bytes.Clone(doc.Body), Version: doc.Version}
}
