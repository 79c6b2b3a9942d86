package file

import (
	"encoding/binary"
	"net/netip"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/test/testkit"
	"weir/proxy/deferred"
	"weir/proxy/deferred/deferredtest"
)

// benchEntry is an order of 1 KiB, of one of many shops.
func benchEntry(n int) deferred.Entry {
	now := time.Now()
	e := deferred.Entry{
		Rule: "orders", LineKey: "shop " + strconv.Itoa(n), Parallel: 1, Accepted: now, Due: now.Add(time.Hour),
		Expires: now.Add(2 * time.Hour),
		Remote:  netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}), 4711),
		Head:    []byte("POST /orders HTTP/1.1\r\nHost: shop.example\r\nContent-Type: application/json\r\n\r\n"),
		Body:    make([]byte, 1024),
	}
	binary.BigEndian.PutUint64(e.ID[:], 0x9e3779b97f4a7c15*uint64(n+1))
	binary.BigEndian.PutUint64(e.ID[8:], uint64(n))
	e.Scope, e.Fingerprint = deferred.SHA256(append(e.ID[:], e.ID[:]...)), deferred.SHA256{1}
	return e
}

// BenchmarkAccept puts entries of 1 KiB at 5,000/s, each at its time, and compares how long they
// take to be durable with two fdatasyncs of another file of this disk, measured meanwhile.
func BenchmarkAccept(b *testing.B) {
	const rate = 5000
	path := filepath.Join(b.TempDir(), "queue")
	q := testkit.Must(Open(time.Now(), Config{Path: path, Limits: deferredtest.LargeLimits}))(b)
	defer func() { _ = q.Close() }()
	stop, measured := make(chan struct{}), make(chan []time.Duration)
	go func() { measured <- twoSyncs(b, stop) }()
	took := make([]time.Duration, b.N)
	refused := 0
	var all sync.WaitGroup
	all.Add(b.N)
	begin := time.Now()
	for i := range b.N {
		due := begin.Add(time.Duration(i) * time.Second / rate)
		time.Sleep(time.Until(due))
		e := benchEntry(i)
		q.Put(time.Now(), &deferred.PutRequest{Entry: e, Done: func(s deferred.PutResult) {
			took[i] = time.Since(due)
			if s.Outcome != deferred.Accepted {
				refused++
			}
			all.Done()
		}})
	}
	all.Wait()
	elapsed := time.Since(begin)
	close(stop)
	syncs := <-measured
	slices.Sort(took)
	slices.Sort(syncs)
	if refused > 0 {
		b.Fatalf("%d of %d were not accepted", refused, b.N)
	}
	b.ReportMetric(float64(b.N)/elapsed.Seconds(), "accepted/s")
	ms := func(d []time.Duration, q float64) float64 { return d[int(q*float64(len(d)-1))].Seconds() * 1000 }
	b.ReportMetric(ms(took, 0.5), "p50-ms")
	b.ReportMetric(ms(took, 0.99), "p99-ms")
	b.ReportMetric(ms(syncs, 0.5), "syncs-p50-ms")
	b.ReportMetric(ms(syncs, 0.99), "syncs-p99-ms")
	b.ReportMetric(ms(took, 0.99)/ms(syncs, 0.5), "p99/syncs-p50")
	b.ReportMetric(ms(took, 0.99)/ms(syncs, 0.99), "p99/syncs-p99")
}

// twoSyncs measures again and again how long it takes to append 4 KiB to a file and have it
// durable, twice.
func twoSyncs(b *testing.B, stop <-chan struct{}) (took []time.Duration) {
	f, err := os.Create(filepath.Join(b.TempDir(), "syncs"))
	if err != nil {
		b.Error(err)
		return []time.Duration{0}
	}
	defer func() { _ = f.Close() }()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	page := make([]byte, 4096)
	for {
		begin := time.Now()
		for range 2 {
			if _, err := f.Write(page); err != nil {
				b.Error(err)
			}
			if err := unix.Fdatasync(int(f.Fd())); err != nil {
				b.Error(err)
			}
		}
		took = append(took, time.Since(begin))
		select {
		case <-stop:
			return took
		case <-tick.C:
		}
	}
}

// BenchmarkOpen opens a queue in which 100,000 entries of 1 KiB wait, each in a line of its own and
// of a client of its own, and measures the memory of the process that nothing shares.
func BenchmarkOpen(b *testing.B) {
	const waiting = 100_000
	path := filepath.Join(b.TempDir(), "queue")
	q := testkit.Must(Open(time.Now(), Config{Path: path, Limits: deferredtest.LargeLimits}))(b)
	var all sync.WaitGroup
	for from := 0; from < waiting; from += 1000 {
		all.Add(1000)
		for i := range 1000 {
			q.Put(time.Now(), &deferred.PutRequest{Entry: benchEntry(from + i), Done: func(s deferred.PutResult) {
				if s.Outcome != deferred.Accepted {
					b.Error(s.Outcome, s.Bound, s.Err)
				}
				all.Done()
			}})
		}
		all.Wait()
	}
	if err := q.Close(); err != nil {
		b.Fatal(err)
	}
	debug.FreeOSMemory()
	before := rssAnon(b)
	b.ResetTimer()
	for range b.N {
		q := testkit.Must(Open(time.Now(), Config{Path: path, Limits: deferredtest.LargeLimits}))(b)
		b.StopTimer()
		b.ReportMetric(rssAnon(b)-before, "RssAnon-MB")
		if n := q.Stats().Rules[0].States[deferred.Waiting].Entries; n != waiting {
			b.Fatalf("%d are waiting", n)
		}
		_ = q.Close()
		b.StartTimer()
	}
}

// rssAnon is the memory of this process that is not of files, in MB.
func rssAnon(b *testing.B) float64 {
	status := testkit.Must(os.ReadFile("/proc/self/status"))(b)
	_, rest, _ := strings.Cut(string(status), "RssAnon:")
	kb := testkit.Must(strconv.Atoi(strings.Fields(rest)[0]))(b)
	return float64(kb) / 1024
}
