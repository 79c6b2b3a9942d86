package simredis

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"weir/proxy/store"
)

// read is Read, which cannot fail.
func read(t *testing.T, d *Documents, name string) store.Document {
	t.Helper()
	doc, err := d.Read(name)
	if err != nil {
		t.Error(err)
	}
	return doc
}

func TestDocuments(t *testing.T) {
	var d Documents
	if doc := read(t, &d, "ratelimiter:config"); doc.Version != 0 || doc.Body != nil {
		t.Errorf("a document never written: %+v", doc)
	}
	body := []byte("one")
	doc, written, err := d.CompareAndSet("ratelimiter:config", 0, body)
	if err != nil || !written || doc.Version != 1 {
		t.Errorf("first write: %+v, %v, %v", doc, written, err)
	}
	body[0] = 'X' // ours, not the store's
	doc, written, err = d.CompareAndSet("ratelimiter:config", 0, []byte("late"))
	if err != nil || written || doc.Version != 1 || string(doc.Body) != "one" {
		t.Errorf("write upon version 0 after version 1: %+v, %v, %v", doc, written, err)
	}
	if _, written, _ = d.CompareAndSet("ratelimiter:config", 1, nil); !written {
		t.Error("write upon the current version failed")
	}
	if doc = read(t, &d, "ratelimiter:config"); doc.Version != 2 || len(doc.Body) != 0 {
		t.Errorf("after the second write: %+v", doc)
	}
}

// Of many that write upon the same version one wins.
func TestDocumentsHaveOneWinner(t *testing.T) {
	var d Documents
	var wins atomic.Int64
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 50 {
				doc := read(t, &d, "x")
				if _, written, _ := d.CompareAndSet("x", doc.Version, fmt.Append(nil, i)); written {
					wins.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if version := read(t, &d, "x").Version; version != wins.Load() || version == 0 {
		t.Errorf("version %d after %d writes", version, wins.Load())
	}
}

func TestDocumentsAreBounded(t *testing.T) {
	var d Documents
	if _, written, err := d.CompareAndSet("big", 0, make([]byte, store.DocumentBytesMax)); err != nil || !written {
		t.Errorf("a body at the bound: %v, %v", written, err)
	}
	if _, written, err := d.CompareAndSet("big", 1, make([]byte, store.DocumentBytesMax+1)); err == nil || written {
		t.Error("a body beyond the bound was written")
	}
	for i := range documentsMax - 1 {
		if _, written, err := d.CompareAndSet(fmt.Sprint(i), 0, nil); err != nil || !written {
			t.Errorf("document %d: %v, %v", i, written, err)
		}
	}
	if _, written, err := d.CompareAndSet("one more", 0, nil); err == nil || written {
		t.Error("a document beyond the bound was written")
	}
	if doc := read(t, &d, "one more"); doc.Version != 0 {
		t.Error("a document that was refused is there")
	}
	if _, written, err := d.CompareAndSet("0", 1, nil); err != nil || !written {
		t.Errorf("a known document at the bound: %v, %v", written, err)
	}
}
