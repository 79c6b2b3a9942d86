package rig

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Usage is what a process used over a span.
type Usage struct {
	RSSBefore, RSSPeak int64 // bytes
	// KernelPeak is the peak size of the buffers of all TCP sockets of the machine, in bytes.
	// They are not part of any process's RSS.
	KernelPeak int64
	CPU        time.Duration
	Over       time.Duration
}

// Cores returns how many cores it kept busy on average.
func (u Usage) Cores() float64 {
	if u.Over <= 0 {
		return 0
	}
	return u.CPU.Seconds() / u.Over.Seconds()
}

// watchStep is the interval between samples of memory.
const watchStep = 50 * time.Millisecond

// MeasureUsage records in u what a process uses while fn runs. It ends the current Catch if the process
// has ended; u then has everything but its CPU time.
func MeasureUsage(pid int, u *Usage, fn func()) {
	rss := Must(RSS(pid))
	*u = Usage{RSSBefore: rss, RSSPeak: rss}
	before, began := Must(CPU(pid)), time.Now()
	While(watchStep, func() {
		if rss, err := RSS(pid); err == nil {
			u.RSSPeak = max(u.RSSPeak, rss)
		}
		u.KernelPeak = max(u.KernelPeak, socketMemory())
	}, fn)
	u.Over = time.Since(began)
	u.CPU = Must(CPU(pid)) - before
}

// socketMemory returns the size of the buffers of all TCP sockets in bytes; 0 if it is
// unknown.
func socketMemory() int64 {
	text, _ := os.ReadFile("/proc/net/sockstat")
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "TCP:" || fields[len(fields)-2] != "mem" {
			continue
		}
		pages, _ := strconv.ParseInt(fields[len(fields)-1], 10, 64)
		return pages * int64(os.Getpagesize())
	}
	return 0
}

// Descriptors returns how many files and sockets a process has open.
func Descriptors(pid int) (int, error) {
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(list), err
}

// AwaitEnd waits at most d for the process to end by itself. It fails if it does not, or if it
// ends with an error.
func (p *Process) AwaitEnd(ctx context.Context, d time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	select {
	case <-p.Done():
	case <-ctx.Done():
		return fmt.Errorf("%s did not end within %v", p.Name, d)
	}
	return p.failure()
}

// Wait waits for d, or until ctx ends and returns its error.
func Wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Await checks the condition once per pause, until it holds. If that takes longer than most, it
// ends the current Catch.
func Await(ctx context.Context, most, pause time.Duration, condition func() bool) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for !condition() {
		if err := Wait(ctx, pause); err != nil {
			Check(fmt.Errorf("not within %v: %w", most, err))
		}
	}
}
