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
	"time"
	"unicode"
	"unicode/utf8"

	"weir/internal/strict"
)

// ComponentKey is the attribute that says which part of a program speaks.
const ComponentKey = "component"

// A textHandler writes log lines for people:
//
//	[2026-01-19T16:30:00Z] INFO RateLimiter - message key=value other="with spaces"
//
// The time is UTC, to the second. The attribute "component" of the logger goes
// before the message. Values that are empty or contain spaces, quotes or what
// cannot be printed are quoted as in Go, so that one record is one line
// whatever a client sends.
//
// Immutable after New. The writer it shares is guarded by its own mutex.
type textHandler struct {
	out       io.Writer
	level     slog.Level
	component string
	group     string // prefix of keys, "a.b." within WithGroup("a").WithGroup("b")
	attrs     []byte // of With, formatted
}

// Enabled is part of slog.Handler.
func (h *textHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

// Handle is part of slog.Handler.
func (h *textHandler) Handle(_ context.Context, r slog.Record) error {
	line := make([]byte, 0, 256)
	line = append(line, '[')
	line = r.Time.UTC().AppendFormat(line, time.RFC3339)
	line = append(line, "] "...)
	line = append(line, r.Level.String()...)
	line = append(line, ' ')
	line = append(line, h.component...)
	line = append(line, " - "...)
	line = append(line, oneLine(r.Message)...)
	line = append(line, h.attrs...)
	r.Attrs(func(a slog.Attr) bool {
		line = appendAttr(line, h.group, a)
		return true
	})
	line = append(line, '\n')
	_, err := h.out.Write(line)
	return err
}

// WithAttrs is part of slog.Handler.
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

// WithGroup is part of slog.Handler.
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

// valueText writes a value without quotes.
func valueText(v slog.Value) string {
	if v.Kind() == slog.KindTime {
		return v.Time().UTC().Format(time.RFC3339Nano)
	}
	if err, ok := v.Any().(error); ok && v.Kind() == slog.KindAny {
		return err.Error()
	}
	return v.String()
}

// mustQuote says whether a value with r must be quoted.
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

// NewHandler writes lines for LOG_FORMAT: "json", or else text.
func NewHandler(format string, level slog.Level, out io.Writer) slog.Handler {
	if format == "json" {
		return slog.NewJSONHandler(out, &slog.HandlerOptions{Level: level, ReplaceAttr: jsonAttr})
	}
	return &textHandler{out: out, level: level}
}

// jsonAttr gives times in UTC and spans of time in seconds, and numbers as
// strict.Plain does, as all our JSON does.
func jsonAttr(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindTime:
		a.Value = slog.TimeValue(a.Value.Time().UTC())
	case slog.KindDuration:
		a.Value = slog.Float64Value(strict.PlainFloat(a.Value.Duration().Seconds()))
	case slog.KindFloat64:
		a.Value = slog.Float64Value(strict.PlainFloat(a.Value.Float64()))
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

// A tee writes every line to all its writers. One that fails, such as a full
// disk, does not keep the line from the others.
//
// Safe for concurrent use: a mutex lets one line through at a time.
type tee struct {
	mu      sync.Mutex
	writers []io.Writer  // the second, if any, is the file
	alone   slog.Handler // writes to the first only, without the mutex; nil: what happens to the file is not told
	lost    bool         // the last line is not in the file
}

// setFile has the lines go to that file from now on.
func (t *tee) setFile(file io.Writer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.writers = []io.Writer{t.writers[0], file}
}

// Write is part of io.Writer; it never fails. When a line cannot be written to the file,
// as on a full disk, the first writer is told, once until a line can be written again.
func (t *tee) Write(line []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, w := range t.writers {
		_, err := w.Write(line)
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
