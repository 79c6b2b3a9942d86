package testkit

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
)

// LogRecords collects log records, each as a line in the format of LOG_FORMAT=text without the
// time. The zero LogRecords is empty.
//
// Safe for concurrent use: a mutex guards the lines.
type LogRecords struct {
	mu    sync.Mutex
	lines []string
}

// Logger returns the logger of a component.
func (r *LogRecords) Logger(component string) *slog.Logger {
	return slog.New(&pen{r: r, component: component})
}

// Taken returns the lines since the last call.
func (r *LogRecords) Taken() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := r.lines
	r.lines = nil
	return lines
}

// A pen is the handler of one component.
type pen struct {
	slog.Handler // for unused methods
	r            *LogRecords
	component    string
}

func (p *pen) Enabled(context.Context, slog.Level) bool { return true }

func (p *pen) Handle(_ context.Context, record slog.Record) error {
	var line strings.Builder
	fmt.Fprintf(&line, "%s %s - %s", record.Level, p.component, record.Message)
	record.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&line, " %s=%s", a.Key, a.Value)
		return true
	})
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	p.r.lines = append(p.r.lines, line.String())
	return nil
}
