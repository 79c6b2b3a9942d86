package simredis

import (
	"bytes"
	"fmt"
	"sync"

	"weir/proxy/store"
)

// documentsMax is how many documents there may be.
const documentsMax = 64

// Documents keeps small documents under names such as ratelimiter:config, in
// memory. The zero value is empty and ready.
//
// Safe for concurrent use: one lock; what it hands out is never changed.
type Documents struct {
	mu   sync.Mutex
	docs map[string]store.Document
}

// Read returns the document called name; one that was never written has version
// 0 and no body. The caller must not change the body. The error is nil: it is there
// for stores that may be away, and this one never is.
func (d *Documents) Read(name string) (store.Document, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.docs[name], nil
}

// CompareAndSet makes body the document called name if its version still is
// version, 0 for one that was never written. It returns the document as it is
// then, and whether it was written. The body is copied. The error is that there are
// 64 documents already, or a store.SizeError.
func (d *Documents) CompareAndSet(name string, version int64, body []byte) (store.Document, bool, error) {
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

// Restore puts a document back as another process has read it, unless there is
// one of the name. One that could not have been written is left out.
func (d *Documents) Restore(name string, doc store.Document) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.docs[name]; known || doc.Version <= 0 || len(d.docs) == documentsMax || store.CheckSize(doc.Body) != nil {
		return
	}
	if d.docs == nil {
		d.docs = make(map[string]store.Document)
	}
	d.docs[name] = store.Document{Body: bytes.Clone(doc.Body), Version: doc.Version}
}
