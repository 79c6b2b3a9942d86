package journal

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"weir/internal/data/strict"
)

// ComponentKey is the attribute with the part of the program that logs.
const ComponentKey = "component"

// A textHandler writes log lines for people:
//
//	[2026-01-19T16:30:00Z] INFO RateLimiter - message key=value other="with spaces"
//
// The time is UTC, to the second. The attribute "component" of the logger precedes the
// message. Values that are empty or contain spaces, quotes or unprintable characters are
// quoted as in Go, so that each record is one line, even with values that clients send.
//
// Immutable after New. The writer it shares is guarded by its own mutex.
type textHandler struct {
	out       io.Writer
	level     slog.Level
	component string
	group     string // prefix of keys, "a.b." within WithGroup("a").WithGroup("b")
	attrs     []byte // attributes of With, formatted
}

// Enabled implements slog.Handler.
func (h *textHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

// Handle implements slog.Handler.
func (h *textHandler) Handle(_ context.Context, r slog.Record) error {
	line := fmt.Appendf(nil, "[%s] %v %s - %s%s", r.Time.UTC().Format(time.RFC3339), r.Level, h.component,
		oneLine(r.Message), h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		line = appendAttr(line, h.group, a)
		return true
	})
	line = append(line, '\n')
	_, err := h.out.Write(line)
	return err
}

// WithAttrs implements slog.Handler.
func (h *textHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	with.attrs = slices.Clone(h.attrs)
	for _, a := range attrs {
		if a.Key == ComponentKey && h.group == "" {
			with.component = a.Value.String()
			continue
		}
		with.attrs = appendAttr(with.attrs, h.group, a)
	}
	return &with
}

// WithGroup implements slog.Handler.
func (h *textHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	with := *h
	with.group += name + "."
	return &with
}

// appendAttr appends " key=value", or the attributes of a group.
func appendAttr(line []byte, group string, a slog.Attr) []byte {
	value := a.Value.Resolve()
	if a.Key == "" && value.Kind() != slog.KindGroup {
		return line
	}
	if value.Kind() == slog.KindGroup {
		if a.Key != "" {
			group += a.Key + "."
		}
		for _, member := range value.Group() {
			line = appendAttr(line, group, member)
		}
		return line
	}
	line = append(line, ' ')
	line = append(line, group...)
	line = append(line, a.Key...)
	line = append(line, '=')
	text := valueText(value)
	if text == "" || strings.ContainsFunc(text, mustQuote) {
		return strconv.AppendQuote(line, text)
	}
	return append(line, text...)
}

// valueText formats a value without quotes.
func valueText(v slog.Value) string {
	if v.Kind() == slog.KindTime {
		return v.Time().UTC().Format(time.RFC3339Nano)
	}
	if err, ok := v.Any().(error); ok && v.Kind() == slog.KindAny {
		return err.Error()
	}
	return v.String()
}

// mustQuote reports whether a value with r must be quoted.
func mustQuote(r rune) bool {
	return r == ' ' || r == '"' || r == utf8.RuneError || !unicode.IsPrint(r)
}

// oneLine replaces control characters by spaces.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}

// NewHandler returns a handler for a LOG_FORMAT: "json", or otherwise text.
func NewHandler(format string, level slog.Level, out io.Writer) slog.Handler {
	if format == "json" {
		return slog.NewJSONHandler(out, &slog.HandlerOptions{Level: level, ReplaceAttr: jsonAttr})
	}
	return &textHandler{out: out, level: level}
}

// jsonAttr formats values as in all JSON of our programs: times in UTC, durations in
// seconds, and numbers as by strict.NormalizeJSON.
func jsonAttr(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindTime:
		a.Value = slog.TimeValue(a.Value.Time().UTC())
	case slog.KindDuration:
		a.Value = slog.Float64Value(strict.RoundTo15Digits(a.Value.Duration().Seconds()))
	case slog.KindFloat64:
		a.Value = slog.Float64Value(strict.RoundTo15Digits(a.Value.Float64()))
	}
	return a
}

// parseLevel reads LOG_LEVEL.
func parseLevel(text string) slog.Level {
	var level slog.Level
	if err := level.UnmarshalText([]byte(text)); err != nil {
		panic(fmt.Sprintf("bug: LOG_LEVEL %q passed its check", text))
	}
	return level
}

// A tee writes every line to all its writers, even if one of them fails, as with a full
// disk.
//
// Safe for concurrent use: mu serializes lines, and dropped is atomic.
type tee struct {
	dropped [2]atomic.Uint64 // lines that could not be written, by writer

	mu      sync.Mutex
	writers []io.Writer  // the second, if any, is the file
	alone   slog.Handler // writes to the first only, without the mutex; nil: errors of the file are not reported
	lost    bool         // the last line could not be written to the file
}

// setFile replaces the file.
func (t *tee) setFile(file io.Writer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.writers = []io.Writer{t.writers[0], file}
}

// Write implements io.Writer; it never fails. If a line cannot be written to the file, that
// is reported to the first writer, once until a line can be written again.
func (t *tee) Write(line []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, w := range t.writers {
		_, err := w.Write(line)
		if err != nil {
			t.dropped[i].Add(1)
		}
		if i == 0 || t.alone == nil {
			continue
		}
		if err != nil && !t.lost {
			r := slog.NewRecord(time.Now(), slog.LevelError, "LOG_FILE cannot be written: lines are lost there until it can", 0)
			r.AddAttrs(slog.String("reason", cause(err).Error()))
			_ = t.alone.Handle(context.Background(), r)
		}
		t.lost = err != nil
	}
	return len(line), nil
}
