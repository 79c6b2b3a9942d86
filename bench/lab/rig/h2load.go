package rig

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
)

// runHTTP2 runs h2load to its end, perhaps with calls of gRPC whose request is the message. It ends the current Try if
// that fails.
func (w Wrk) runHTTP2(ctx context.Context) WrkRun {
	args := []string{"-t1", "-c" + strconv.Itoa(w.Connections/w.Streams), "-m" + strconv.Itoa(w.Streams),
		"-D" + strconv.Itoa(int(w.For.Seconds()))}
	if w.Message != nil {
		dir := Must(os.MkdirTemp("", "weir-h2load-"))
		defer os.RemoveAll(dir)
		file := filepath.Join(dir, "message")
		framed := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(w.Message)))
		Check(os.WriteFile(file, append(framed, w.Message...), 0o600))
		args = append(args, "-d"+file, "-H", "content-type: application/grpc", "-H", "te: trailers")
	}
	return w.run(ctx, "h2load", args, parseH2load)
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
