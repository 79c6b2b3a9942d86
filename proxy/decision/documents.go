package decision

import (
	"crypto/rand"
	"fmt"
	"hash/crc32"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goccy/go-json"

	"weir/proxy/check"
	"weir/proxy/store"
)

// showPause is how often documents and edits are looked at: a change is to be in force at
// every sidecar within a second.
const showPause = 100 * time.Millisecond

// documents are what sidecars are shown, read beside the loops.
//
// Safe for concurrent use: current is atomic, mu guards the rest.
type documents struct {
	current atomic.Pointer[check.Documents] // nil until all were read once

	store store.Store
	names []string
	quiet bool
	run   string // other edits than those of another run of this program

	mu    sync.Mutex
	known map[string]store.Document
	epoch uint64 // as shown
	fresh bool   // known is shown
}

// begin follows the documents of the configuration.
func (d *documents) begin(cfg *Config) {
	d.store, d.names, d.quiet, d.run, d.known = cfg.Store, cfg.Documents, cfg.Quiet, rand.Text(), make(map[string]store.Document)
	if d.quiet {
		return
	}
	for _, name := range d.names {
		d.store.Watch(name, func(doc store.Document) { d.learn(name, doc) })
	}
}

// keep shows what has changed, until stop is closed.
func (d *documents) keep(stop <-chan struct{}) {
	tick := time.NewTicker(showPause)
	defer tick.Stop()
	for {
		for _, name := range d.names {
			if !d.quiet {
				break
			}
			if doc, err := d.store.Read(name); err == nil {
				d.learn(name, doc)
			}
		}
		d.show()
		select {
		case <-stop:
			return
		case <-tick.C:
		}
	}
}

// learn notes a document.
func (d *documents) learn(name string, doc store.Document) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if was, known := d.known[name]; known && was.Version == doc.Version && string(was.Body) == string(doc.Body) {
		return
	}
	d.known[name], d.fresh = doc, false
}

// show has sessions see what is known, if that is something else.
func (d *documents) show() {
	epoch := d.store.Epoch()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fresh && d.epoch == epoch || len(d.known) < len(d.names) {
		return
	}
	shown := &check.Documents{Named: maps.Clone(d.known)}
	marks := check.Marks{Edits: d.run + "-" + strconv.FormatUint(epoch, 10), Documents: make(map[string]string)}
	for name, doc := range d.known {
		marks.Documents[name] = fmt.Sprintf("%d-%d-%08x", doc.Version, len(doc.Body), crc32.ChecksumIEEE(doc.Body))
	}
	shown.Marks, _ = json.Marshal(marks) // strings always can be
	d.epoch, d.fresh = epoch, true
	d.current.Store(shown)
}
