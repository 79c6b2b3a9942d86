package simredis

import (
	"fmt"
	"testing"

	"weir/proxy/store/storetest"
)

func TestDocuments(t *testing.T) { storetest.Documents(t, new(DocumentStore)) }

func TestDocumentsAreBounded(t *testing.T) {
	var d DocumentStore
	for i := range documentsMax {
		if _, written, err := d.CompareAndSet(fmt.Sprint(i), 0, nil); err != nil || !written {
			t.Errorf("document %d: %v, %v", i, written, err)
		}
	}
	if _, written, err := d.CompareAndSet("one more", 0, nil); err == nil || written {
		t.Error("a document beyond the bound was written")
	}
	if doc, err := d.Read("one more"); doc.Version != 0 || err != nil {
		t.Errorf("a document that was refused has version %d, %v; want none", doc.Version, err)
	}
	if _, written, err := d.CompareAndSet("0", 1, nil); err != nil || !written {
		t.Errorf("a known document at the bound: %v, %v", written, err)
	}
}
