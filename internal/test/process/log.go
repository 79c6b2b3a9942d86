package testkit

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
)

// A Log records what is written to it, such as log lines or the output of a program. The zero
// Log is empty.
//
// Safe for concurrent use: a mutex guards the text.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns what was written so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Count returns how often part was written.
func (l *Log) Count(part string) int { return strings.Count(l.String(), part) }

// Lines returns the complete lines that contain part.
func (l *Log) Lines(part string) (lines []string) {
	for line := range strings.Lines(l.String()) {
		if whole, ok := strings.CutSuffix(line, "\n"); ok && strings.Contains(whole, part) {
			lines = append(lines, whole)
		}
	}
	return lines
}

// Reset empties the log.
func (l *Log) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Reset()
}

// Logger returns a logger that writes to l.
func (l *Log) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }
