// Package control starts, stops and shows test runs, over REST and from the command line.
// One test runs at a time; the last one is kept.
package control

import (
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"weir/loadgen/drive"
	"weir/loadgen/plan"
	"weir/loadgen/record"
)

// Runs has the current run, or the last one.
//
// Safe for concurrent use: mu lets one caller start at a time; the run itself is an
// atomic pointer, so that its status can be read meanwhile.
type Runs struct {
	settings drive.Settings
	folder   string

	mu      sync.Mutex
	closed  bool
	current atomic.Pointer[drive.Run]
}

// New returns Runs without a run. Configurations given by name are read from folder.
func New(settings drive.Settings, folder string) *Runs {
	return &Runs{settings: settings, folder: folder}
}

var (
	errRunning = errors.New("a test is running")
	errClosed  = errors.New("the load generator is stopping")
)

// Start starts the test configured by data. The error wraps errRunning, or is a strict.Fault or
// strict.Faults if the configuration is invalid, or another if it cannot be carried out.
func (r *Runs) Start(data []byte) (*drive.Run, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.startLocked(data)
}

func (r *Runs) startLocked(data []byte) (*drive.Run, error) {
	if r.closed {
		return nil, errClosed
	}
	if run, running := r.Current(); running {
		return nil, fmt.Errorf("%w: %s", errRunning, run.ID())
	}
	now := time.Now()
	p, err := plan.Parse(now, data, r.folder)
	if err != nil {
		return nil, err
	}
	run, err := drive.Start(newID(now), p, r.settings)
	if err != nil {
		return nil, err
	}
	r.current.Store(run)
	return run, nil
}

// Current returns the current run, or the last one; nil if there was none.
func (r *Runs) Current() (run *drive.Run, running bool) {
	run = r.current.Load()
	if run == nil {
		return nil, false
	}
	select {
	case <-run.Done():
		return run, false
	default:
		return run, true
	}
}

// Stop ends the current run and waits until it is over. It returns false if there is
// none. If a run is just being started, Stop waits for that.
func (r *Runs) Stop() (id string, ok bool) {
	r.mu.Lock()
	run, running := r.Current()
	r.mu.Unlock()
	if !running {
		return "", false
	}
	run.Stop()
	<-run.Done()
	return run.ID(), true
}

// Close stops the current run and prevents further starts.
func (r *Runs) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.Stop()
}

// status returns the JSON of GET /test/status, with the rows of the series that begin
// after after.
func (r *Runs) status(after *float64) any {
	run, running := r.Current()
	if run == nil {
		return idle{}
	}
	s := statusAfter(run.Status(), after)
	if running {
		return s
	}
	return idle{Last: &s}
}

// A seenStatus is a status with the requested part of its series.
type seenStatus struct {
	record.Status
	Series *record.Series `json:"series,omitempty"`
}

func statusAfter(s record.Status, after *float64) seenStatus {
	seen := seenStatus{Status: s}
	if after != nil {
		part := s.Course.After(*after)
		seen.Series = &part
	}
	return seen
}

// idle is the status when no test runs.
type idle struct {
	Running bool        `json:"running"`
	Last    *seenStatus `json:"last,omitempty"`
}

// newID returns an identifier that sorts by time and differs between instances.
func newID(now time.Time) string {
	var b [3]byte
	_, _ = rand.Read(b[:]) // never fails
	return fmt.Sprintf("%s-%x", now.UTC().Format("20060102T150405"), b)
}
