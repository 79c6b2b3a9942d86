package process

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
)

// logMax bounds the bytes that a Log keeps. If there are more, it keeps the last half of that.
const logMax = 16 << 20

// A Log records what is written to it, such as log lines or the output of a program, at least the last
// 8 MB. The zero Log is empty.
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
	n, err := l.text.Write(p)
	if l.text.Len() > logMax {
		l.text.Next(l.text.Len() - logMax/2)
	}
	return n, err
}

// String returns what was written so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// End returns the last bytes of what was written, at most n.
func (l *Log) End(n int) string {
	text := l.String()
	return text[max(0, len(text)-n):]
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
