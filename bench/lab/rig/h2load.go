package rig

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// runHTTP2 runs h2load to its end, perhaps with calls of gRPC whose request is the message. It ends the current Catch
// if that fails.
func (w Wrk) runHTTP2(ctx context.Context) WrkRun {
	clients := w.Connections / w.Streams
	args := []string{"-t1", "-c" + strconv.Itoa(clients), "-m" + strconv.Itoa(w.Streams),
		"-D" + strconv.Itoa(int(w.For.Seconds()))}
	dir := Must(os.MkdirTemp("", "weir-h2load-"))
	defer os.RemoveAll(dir)
	log := filepath.Join(dir, "log")
	if w.Rate > 0 {
		args = append(args, "--rps="+strconv.Itoa(max(1, w.Rate/clients)), "--log-file="+log)
	}
	if w.Message != nil {
		file := filepath.Join(dir, "message")
		framed := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(w.Message)))
		Check(os.WriteFile(file, append(framed, w.Message...), 0o600))
		args = append(args, "-d"+file, "-H", "content-type: application/grpc", "-H", "te: trailers")
	}
	r := w.run(ctx, "h2load", args, parseH2load)
	if w.Rate > 0 {
		times := Must(parseH2loadLog(string(Must(os.ReadFile(log)))))
		r.P50, r.P99 = times[len(times)/2], times[len(times)*99/100]
	}
	return r
}

// parseH2loadLog returns in ascending order how long the requests took. A line has the time of the start, the status,
// and the microseconds to the end of the answer.
func parseH2loadLog(text string) (times []time.Duration, err error) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			return nil, fmt.Errorf("parse the log of h2load: %q", line)
		}
		us, err := strconv.Atoi(fields[2])
		if err != nil {
			return nil, fmt.Errorf("parse the log of h2load: %w", err)
		}
		times = append(times, time.Duration(us)*time.Microsecond)
	}
	if len(times) == 0 {
		return nil, errors.New("the log of h2load is empty")
	}
	slices.Sort(times)
	return times, nil
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
