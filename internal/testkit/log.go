package testkit

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
)

// A Log keeps what is written to it: the log of what is tested, or the output of a
// program. The zero Log is empty.
//
// Safe for concurrent use: a mutex guards the text.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write adds to the log.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String is what was written so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Count says how often part was written.
func (l *Log) Count(part string) int { return strings.Count(l.String(), part) }

// Lines are the complete lines so far that contain part.
func (l *Log) Lines(part string) (lines []string) {
	for line := range strings.Lines(l.String()) {
		if whole, ok := strings.CutSuffix(line, "\n"); ok && strings.Contains(whole, part) {
			lines = append(lines, whole)
		}
	}
	return lines
}

// Reset forgets what was written.
func (l *Log) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Reset()
}

// Logger logs into l.
func (l *Log) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }
