package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

// callStreams is how many calls h2load has in progress on each connection.
const callStreams = 16

// runHTTP2 runs h2load to its end, perhaps with calls of gRPC whose request is the message. It ends the current Try if
// that fails.
func (w Wrk) runHTTP2(ctx context.Context) WrkRun {
	connections, streams, args := w.Connections, callStreams, []string(nil)
	if w.Streams > 0 {
		connections, streams = connections/w.Streams, w.Streams
	}
	if n := len(w.Message); w.Message != nil {
		dir := Must(os.MkdirTemp("", "weir-h2load-"))
		defer os.RemoveAll(dir)
		file := filepath.Join(dir, "message")
		Check(os.WriteFile(file, append([]byte{0, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}, w.Message...), 0o600))
		args = []string{"-d" + file, "-H", "content-type: application/grpc", "-H", "te: trailers"}
	}
	cmd := exec.CommandContext(ctx, "h2load", append(args, "-t1", "-c"+strconv.Itoa(connections),
		"-m"+strconv.Itoa(streams), "-D"+strconv.Itoa(int(w.For.Seconds())), w.URL)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		Check(fmt.Errorf("h2load %s: %w\n%s", w.URL, err, out))
	}
	r := Must(parseH2load(string(out)))
	r.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return r
}

var (
	h2loadRate = regexp.MustCompile(`finished in \S+, ([\d.]+) req/s`)
	h2loadDone = regexp.MustCompile(`requests: .* (\d+) done, .*`)
	h2loadGood = regexp.MustCompile(`status codes: (\d+) 2xx`)
)

// parseH2load reads the numbers of requests and failures, and the rate.
func parseH2load(text string) (r WrkRun, err error) {
	rate, done, good := h2loadRate.FindStringSubmatch(text), h2loadDone.FindStringSubmatch(text),
		h2loadGood.FindStringSubmatch(text)
	if rate == nil || done == nil || good == nil {
		return r, fmt.Errorf("parse the output of h2load:\n%s", text)
	}
	var errs [3]error
	var answered float64
	r.PerSecond, errs[0] = strconv.ParseFloat(rate[1], 64)
	r.Requests, errs[1] = strconv.ParseFloat(done[1], 64)
	answered, errs[2] = strconv.ParseFloat(good[1], 64)
	r.Failed = int(r.Requests - answered)
	return r, errors.Join(errs[:]...)
}
