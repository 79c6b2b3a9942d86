package control

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"weir/loadgen/record"
	"weir/loadgen/report"
)

// barPlaces is the width of the bar drawn on a terminal.
const barPlaces = 20

const (
	sparkPlaces = 24 // seconds whose rate is drawn behind the bar
	linesApart  = 5  // seconds between two lines without a terminal
)

// A Display shows the progress of a run: on a terminal as one line that is redrawn four times a
// second, otherwise as a line every five seconds, and one for each phase.
//
// Safe for concurrent use: a mutex admits one writer to the terminal at a time.
type Display struct {
	out   io.Writer
	width func() int // of the terminal; nil: there is none

	mu    sync.Mutex
	drawn bool // the terminal shows a line that must be replaced
	phase record.Phase
	calls int // of draw in this phase
}

// NewDisplay returns a Display on f.
func NewDisplay(f *os.File) *Display {
	d := &Display{out: f}
	if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err == nil {
		d.width = func() int {
			size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
			if err != nil {
				return 0
			}
			return int(size.Col) - 1
		}
	}
	return d
}

func (d *Display) every() time.Duration {
	if d.width != nil {
		return time.Second / 4
	}
	return time.Second
}

func (d *Display) draw(s *record.Status) {
	d.mu.Lock()
	defer d.mu.Unlock()
	line := report.Progress(s)
	if d.width == nil {
		if s.Phase != d.phase {
			d.phase, d.calls = s.Phase, 0
		}
		if d.calls%linesApart == 0 {
			fmt.Fprintln(d.out, line)
		}
		d.calls++
		return
	}
	if spark := report.Sparkline(&s.Course, sparkPlaces); spark != "" {
		line = spark + " " + line
	}
	line = report.Bar(s.Elapsed/s.Duration, barPlaces) + " " + line
	fmt.Fprintf(d.out, "\r\x1b[K%s", report.Truncate(line, d.width()))
	d.drawn = true
}

func (d *Display) clear() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clearLocked()
}

func (d *Display) clearLocked() {
	if d.drawn {
		fmt.Fprint(d.out, "\r\x1b[K")
		d.drawn = false
	}
}

// Over returns a handler that removes the progress line before h writes, because the log goes to
// the same terminal.
func (d *Display) Over(h slog.Handler) slog.Handler { return over{h, d} }

type over struct {
	slog.Handler
	display *Display
}

func (o over) Handle(ctx context.Context, r slog.Record) error {
	o.display.mu.Lock()
	defer o.display.mu.Unlock()
	o.display.clearLocked()
	return o.Handler.Handle(ctx, r)
}

func (o over) WithAttrs(attrs []slog.Attr) slog.Handler {
	return over{o.Handler.WithAttrs(attrs), o.display}
}

func (o over) WithGroup(name string) slog.Handler {
	return over{o.Handler.WithGroup(name), o.display}
}
