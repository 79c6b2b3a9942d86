package deferred

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"weir/bench/lab/result"
	"weir/bench/lab/rig"
)

const (
	acceptRate = 5000
	acceptTime = 20 * time.Second
	shops      = 1000
	bodyBytes  = 1 << 10
	syncPause  = 10 * time.Millisecond
	syncs      = 4  // bound of the p99 of answers relative to that of two fdatasyncs
	anonMax    = 40 // MB
	startMax   = 2  // seconds
	neverAgain = "key: [\"query:shop\"], limit: {algorithm: fixed, limit: 1, window: 3153600000}, defer: {when: always}"
)

// accept has orders stored, none of which is delivered, and restarts the proxy with them. It measures
// the memory of the proxy before and after.
func (l *lab) accept() {
	env := l.settings("accept", neverAgain)
	r := l.Rig(rig.Topology{Proxy: env})
	empty := rig.Must(rig.AnonRSS(r.Proxies[0].Pid()))
	load := rig.Load{URL: r.URL(0) + "?shop={{counter}}", Rate: shops, For: time.Second,
		Body: fmt.Sprintf("%q", strings.Repeat("x", bodyBytes-2)), Outcomes: true}
	l.Load(load) // all that the limits admit
	load.URL, load.Rate, load.For = fmt.Sprintf("%s?shop={{random 1 %d}}", r.URL(0), shops), acceptRate, acceptTime
	file := rig.Must(os.Create(filepath.Join(l.Dir, "syncs"))) // beside the queue
	defer file.Close()
	var loaded *rig.LoadResult
	var two result.Latencies
	rig.While(syncPause, func() { two = append(two, twoSyncs(file)) }, func() { loaded = l.Load(load)[0] })
	l.Loads = append(l.Loads, loaded)
	stored := l.judgeAccept(loaded, two)
	full := rig.Must(rig.AnonRSS(r.Proxies[0].Pid()))
	rig.Check(r.Proxies[0].Stop())
	began := time.Now()
	p := l.StartAt("proxy", r.ProxyAddrs[0], append(env, "TARGET_URL=http://"+r.TargetAddr)...)
	m := l.Scrape(r.ProxyAddrs[0])
	ready := time.Since(began)
	again := rig.Must(rig.AnonRSS(p.Pid()))
	found := m.Sum("ratelimiter_deferred_waiting")
	l.Heading("%.0f waiting", found)
	l.Note("RssAnon: %.1f MB with an empty queue, %.1f MB after the load, %.1f MB after a restart of the proxy, which "+
		"took %.2f s.", megabytes(empty), megabytes(full), megabytes(again), ready.Seconds())
	l.Never(found != float64(stored), "%s%.0f wait after the restart, %d were stored", l.where(), found, stored)
	l.AtMost(l.where()+"100,000 waiting: RssAnon grown by MB", megabytes(max(full, again)-empty), anonMax)
	l.AtMost(l.where()+"100,000 waiting: seconds to start", ready.Seconds(), startMax)
}

// twoSyncs returns how long two appends with fdatasync to a file take.
func twoSyncs(f *os.File) time.Duration {
	page := make([]byte, 4<<10)
	began := time.Now()
	for range 2 {
		rig.Must(f.Write(page))
		rig.Check(unix.Fdatasync(int(f.Fd())))
	}
	return time.Since(began)
}

// judgeAccept compares the answer times with the fdatasyncs measured at the same time, and returns
// how many orders were stored. A queue on a server has no bound: the server may sync or not.
func (l *lab) judgeAccept(loaded *rig.LoadResult, two result.Latencies) (stored int) {
	took := loaded.Answered(http.StatusAccepted)
	slices.Sort(two)
	l.Heading("%d orders of 1 KiB per second", acceptRate)
	l.Note("%d of %d are stored. From the due time of a request to its 202: %v. Two fdatasyncs meanwhile: %v. The load "+
		"was %s.", len(took), len(loaded.Outcomes), took, two, loaded.Verdict)
	if l.where() != "" {
		return len(took)
	}
	l.AtLeast("accept: stored per second", float64(len(took))/acceptTime.Seconds(), acceptRate)
	l.AtMost("accept: p99 to the 202, of p99 of two fdatasyncs", took.Millis(.99)/two.Millis(.99), syncs)
	return len(took)
}
