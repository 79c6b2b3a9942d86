package service

import (
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
)

// logPart is the name of LOG_FILE in the log line about a reload.
const logPart = "log"

// reloads are the functions that reload parts of a program on SIGHUP.
//
// Safe for concurrent use: a mutex guards the list.
type reloads struct {
	possible []string // Program.Reloads
	mu       sync.Mutex
	list     []reloadable
}

// A reloadable reads some parts of a program's settings from files.
type reloadable struct {
	parts []string
	read  func() error
}

// OnReload registers read to be called on each SIGHUP, on a separate goroutine, one call
// at a time. It reads the given parts again, such as "rules" or "certificates". If it
// returns an error, which is logged, nothing has changed.
func (e *Env) OnReload(read func() error, parts ...string) {
	e.reloads.mu.Lock()
	defer e.reloads.mu.Unlock()
	e.reloads.list = append(e.reloads.list, reloadable{parts, read})
}

// reload reads everything again and logs the result for each part. A part that this run
// does not use is logged as "none".
func (e *Env) reload(log *slog.Logger) {
	e.reloads.mu.Lock()
	list := slices.Clone(e.reloads.list)
	e.reloads.mu.Unlock()
	parts := slices.Clone(e.reloads.possible)
	became := make(map[string]string)
	for _, r := range list {
		word := "read"
		if err := r.read(); err != nil {
			word = "failed"
			log.Error("Reload failed, the previous version stays in use", "part", strings.Join(r.parts, ", "), "reason", err)
		}
		for _, part := range r.parts {
			if part != logPart && !slices.Contains(parts, part) {
				parts = append(parts, part)
			}
			if became[part] != "failed" {
				became[part] = word
			}
		}
	}
	var attrs []any
	for _, part := range append(parts, logPart) {
		word := became[part]
		switch {
		case word == "":
			word = "none"
		case part == logPart && word == "read":
			word = "reopened"
		}
		attrs = append(attrs, part, word)
	}
	log.Info("Reloaded", attrs...)
}

// followHangups reloads on each signal until stop is called, which waits for the end of a
// reload. Signals that arrive during a reload count as one.
func (e *Env) followHangups(hangups <-chan os.Signal, log *slog.Logger) (stop func()) {
	return background(func(over <-chan struct{}) {
		for {
			select {
			case <-over:
				return
			case <-hangups:
				e.reload(log)
			}
		}
	})
}

// background runs f on a goroutine. stop closes over and waits for f.
func background(f func(over <-chan struct{})) (stop func()) {
	over := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() { f(over) })
	return func() {
		close(over)
		running.Wait()
	}
}
