package journal

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/data/strict"
	"weir/internal/test/testkit"
)

// at is the time of every record in these tests.
var at = time.Date(2026, 1, 19, 18, 30, 0, 987654321, time.FixedZone("CET", 2*60*60))

// record logs one record at a fixed time.
func record(h slog.Handler, level slog.Level, message string, attrs ...slog.Attr) {
	r := slog.NewRecord(at, level, message, 0)
	r.AddAttrs(attrs...)
	_ = h.Handle(context.Background(), r)
}

type secretive struct{}

func (secretive) LogValue() slog.Value { return slog.StringValue("resolved") }

func TestTextLines(t *testing.T) {
	f := func(want, message string, attrs ...slog.Attr) {
		t.Helper()
		var b strings.Builder
		h := NewHandler("text", slog.LevelInfo, &b).WithAttrs([]slog.Attr{slog.String("component", "RateLimiter")})
		record(h, slog.LevelInfo, message, attrs...)
		if want := "[2026-01-19T16:30:00Z] INFO RateLimiter - " + want + "\n"; b.String() != want {
			t.Errorf("have %s\nwant %s", b.String(), want)
		}
	}
	f("message", "message")
	f("Applied new config: algorithm=sliding, limit=500", "Applied new config: algorithm=sliding, limit=500")
	f("m rule=global count=17", "m", slog.String("rule", "global"), slog.Int("count", 17))
	f(`m a="two words" b="say \"so\"" c="" d=x=y e="\x00" f="a\nb"`, "m", slog.String("a", "two words"),
		slog.String("b", `say "so"`), slog.String("c", ""), slog.String("d", "x=y"), slog.String("e", "\x00"),
		slog.String("f", "a\nb"))
	f(`m bad="\xff" ok=ä☃`, "m", slog.String("bad", "\xff"), slog.String("ok", "ä☃"))
	f("m f=0.185 d=1.5s b=true", "m", slog.Float64("f", 0.185), slog.Duration("d", 1500*time.Millisecond),
		slog.Bool("b", true))
	f("m t=2026-01-19T16:30:00.987654321Z", "m", slog.Time("t", at))
	f(`m err="not found" v=resolved`, "m", slog.Any("err", errors.New("not found")), slog.Any("v", secretive{}))
	f("m g.a=1 g.h.b=2 c=3", "m", slog.Group("g", slog.Int("a", 1), slog.Group("h", slog.Int("b", 2))),
		slog.Group("", slog.Int("c", 3)))
	f("m a=1", "m", slog.Attr{}, slog.Group("empty"), slog.Int("a", 1))
	f("two lines", "two\nlines")
}

func TestTextHandlerWith(t *testing.T) {
	var b strings.Builder
	base := NewHandler("text", slog.LevelWarn, &b)
	one := base.WithAttrs([]slog.Attr{slog.Int("a", 1)})
	two := one.WithGroup("g").WithGroup("").WithAttrs([]slog.Attr{slog.Int("b", 2), slog.String("component", "inner")})
	three := one.WithAttrs([]slog.Attr{slog.Int("c", 3)}) // must not share with two
	record(two, slog.LevelWarn, "m", slog.Int("d", 4))
	record(three, slog.LevelError, "m")
	const want = "[2026-01-19T16:30:00Z] WARN  - m a=1 g.b=2 g.component=inner g.d=4\n" +
		"[2026-01-19T16:30:00Z] ERROR  - m a=1 c=3\n"
	if b.String() != want {
		t.Errorf("have\n%s\nwant\n%s", b.String(), want)
	}
	if base.Enabled(t.Context(), slog.LevelInfo) || !base.Enabled(t.Context(), slog.LevelWarn) {
		t.Error("the level is not kept")
	}
}

func TestJSONLines(t *testing.T) {
	var b strings.Builder
	h := NewHandler("json", slog.LevelInfo, &b).WithAttrs([]slog.Attr{slog.String("component", "RateLimiter")})
	record(h, slog.LevelWarn, "m", slog.Duration("d", 1500*time.Millisecond))
	var line struct {
		Time      time.Time `json:"time"`
		Level     string    `json:"level"`
		Msg       string    `json:"msg"`
		Component string    `json:"component"`
		D         float64   `json:"d"`
	}
	if err := strict.Decode([]byte(b.String()), &line); err != nil {
		t.Fatalf("%s: %v", b.String(), err)
	}
	if line.Level != "WARN" || line.Msg != "m" || line.Component != "RateLimiter" || line.D != 1.5 {
		t.Errorf("have %s", b.String())
	}
	if !line.Time.Equal(at) || line.Time.Location() != time.UTC {
		t.Errorf("the time is %s", line.Time)
	}
}

// Lines of many loggers never mix, and a writer that fails does not keep them
// from the others.
func TestTee(t *testing.T) {
	var b strings.Builder
	broken, other := io.Pipe()
	_ = broken.CloseWithError(errors.New("disk full"))
	out := &tee{writers: []io.Writer{other, &b}}
	log := slog.New(NewHandler("text", slog.LevelInfo, out))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 50 {
				log.Info("a message of some length", "key", "value")
			}
		})
	}
	all.Wait()
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if len(lines) != 200 {
		t.Fatalf("%d lines, want 200", len(lines))
	}
	if stdout, file := (&Log{out: out}).Dropped(); stdout != 200 || file != 0 {
		t.Errorf("%d and %d lines were dropped, want 200 and 0", stdout, file)
	}
	for _, line := range lines {
		if !strings.HasSuffix(line, "INFO  - a message of some length key=value") {
			t.Fatalf("bad line %q", line)
		}
	}
}

func TestJSONNumbersArePlain(t *testing.T) {
	var b strings.Builder
	slog.New(NewHandler("json", slog.LevelInfo, &b)).Info("x", "span", 2989333*time.Microsecond, "share", sum(0.1, 0.2))
	if !strings.Contains(b.String(), `"span":2.989333,"share":0.3`) {
		t.Errorf("have %s", b.String())
	}
}

// sum adds as the program does: constants are added exactly.
func sum(a, b float64) float64 { return a + b }

// A full disk loses lines of LOG_FILE: stdout says so, once until lines are kept again.
func TestLogFileThatCannotBeWritten(t *testing.T) {
	var stdout strings.Builder
	l := testkit.Must(Open(Config{File: "/dev/full", Format: "text", Level: "info"}, &stdout))(t)
	defer l.Close()
	tell := l.Logger()
	tell.Info("one")
	tell.Info("two")
	var kept strings.Builder
	full := l.out.writers[1]
	l.out.setFile(&kept)
	tell.Info("three")
	l.out.setFile(full)
	tell.Info("four")
	const lost = "ERROR Log - LOG_FILE cannot be written: lines are lost there until it can reason=\"no " +
		"space left on device\"\n"
	if n := strings.Count(stdout.String(), lost); n != 2 || strings.Count(stdout.String(), "\n") != 6 ||
		strings.Count(kept.String(), "\n") != 1 {
		t.Errorf("stdout has %d complaints, want 2, and kept is %q:\n%s", n, kept.String(), stdout.String())
	}
}

// A link of another user is not written to, and in a folder of another user, who could plant one
// at any time, the file is not rotated.
func TestLogFileOfOthers(t *testing.T) {
	folder := t.TempDir()
	name := filepath.Join(folder, "log")
	testkit.PlantSymlink(t, name)
	if _, err := Open(Config{File: name, Format: "text", Level: "info"}, io.Discard); err == nil ||
		!strings.Contains(err.Error(), "is a symbolic link of user") {
		t.Errorf("a link of another user: %v", err)
	}
	if err := errors.Join(os.Remove(name), os.Chown(folder, testkit.NobodyUID, -1)); err != nil {
		t.Fatal(err)
	}
	j := testkit.Must(Open(Config{File: name, Format: "text", Level: "info"}, io.Discard))(t)
	defer j.Close()
	line := strings.Repeat("x", 1<<20)
	for range FileMegabytes + 1 {
		j.Logger().Info(line)
	}
	if all, err := os.ReadDir(folder); err != nil || len(all) != 1 {
		t.Errorf("there are %v, %v", all, err)
	}
}

// That something works again is told wherever it was told that it does not.
func TestRecovered(t *testing.T) {
	for level, want := range map[string]string{"debug": "INFO", "info": "INFO", "warn": "WARN", "error": ""} {
		var out strings.Builder
		j, err := Open(Config{Level: level, Format: "text"}, &out)
		if err != nil {
			t.Fatal(err)
		}
		LogRecovery(j.Logger(), "Redis reconnected", "after", 1)
		if have := out.String(); (have == "") != (want == "") || !strings.Contains(have, want) {
			t.Errorf("at %s: %q, want %q", level, have, want)
		}
	}
}
