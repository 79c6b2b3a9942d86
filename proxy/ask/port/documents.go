package port

import (
	"context"
	"crypto/rand"
	"fmt"
	"hash/crc32"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goccy/go-json"

	"weir/proxy/ask/check"
	"weir/proxy/store"
	"weir/proxy/store/asks"
)

// showPause is the interval for checking documents and edits: a change must be in force
// at every sidecar within a second.
const showPause = 100 * time.Millisecond

// documents are what sidecars may read, kept up to date outside the loops.
//
// Safe for concurrent use: current is atomic, mu guards the rest.
type documents struct {
	current atomic.Pointer[check.Documents] // nil until all have been read once

	cfg *Config
	run string // distinguishes the edits of different runs of the program

	mu    sync.Mutex
	known map[string]store.Document
	epoch uint64 // as published
	fresh bool   // known is published
}

// begin follows the documents of the configuration.
func (d *documents) begin(cfg *Config) {
	d.cfg, d.run, d.known = cfg, rand.Text(), make(map[string]store.Document)
	if cfg.Local {
		return
	}
	for _, name := range cfg.Documents {
		cfg.Store.Watch(name, func(doc store.Document) { d.learn(name, doc) })
	}
}

// keep publishes changes until ctx ends.
func (d *documents) keep(ctx context.Context) {
	tick := time.NewTicker(showPause)
	defer tick.Stop()
	names := d.cfg.Documents
	if !d.cfg.Local {
		names = nil
	}
	for {
		d.make()
		for _, name := range names {
			if doc, err := d.cfg.Store.Read(name); err == nil {
				d.learn(name, doc)
			}
		}
		d.show()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// LimitDocument is the name of the document with the master's limit in force.
const LimitDocument = "ratelimiter:limit"

// make makes the document that is not in the store. Its version is the number of changes.
func (d *documents) make() {
	if d.cfg.Limit == nil {
		return
	}
	body := d.cfg.Limit()
	d.mu.Lock()
	version := d.known[LimitDocument].Version
	if string(d.known[LimitDocument].Body) != string(body) {
		version++
	}
	d.mu.Unlock()
	d.learn(LimitDocument, store.Document{Version: version, Body: body})
}

func (d *documents) learn(name string, doc store.Document) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if was, known := d.known[name]; known && was.Version == doc.Version && string(was.Body) == string(doc.Body) {
		return
	}
	d.known[name], d.fresh = doc, false
}

// complete reports whether all documents have been read. The caller holds mu.
func (d *documents) complete() bool {
	for _, name := range d.cfg.Documents {
		if _, known := d.known[name]; !known {
			return false
		}
	}
	return true
}

// show publishes what is known, if it has changed.
func (d *documents) show() {
	epoch := d.cfg.Store.Epoch()
	if d.cfg.PerSecond != nil {
		epoch += d.cfg.PerSecond.Epoch()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fresh && d.epoch == epoch || !d.complete() {
		return
	}
	shown := &check.Documents{Named: maps.Clone(d.known)}
	marks := asks.Fingerprints{Edits: d.run + "-" + strconv.FormatUint(epoch, 10), Documents: make(map[string]string)}
	for name, doc := range d.known {
		marks.Documents[name] = fmt.Sprintf("%d-%d-%08x", doc.Version, len(doc.Body), crc32.ChecksumIEEE(doc.Body))
	}
	shown.Marks, _ = json.Marshal(marks) // cannot fail for strings
	d.epoch, d.fresh = epoch, true
	d.current.Store(shown)
}
