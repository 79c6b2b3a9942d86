package redis

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/deferred"
	"weir/proxy/deferred/deferredtest"
	"weir/proxy/store/redis"
	"weir/proxy/store/redis/redistest"
)

// BenchmarkEntry stores entries of 1 KiB with 256 waiting at a time, then delivers them. It
// tells how many calls each way needs, which does not depend on the machine as times do.
func BenchmarkEntry(b *testing.B) {
	s := redistest.Start(b, "--appendonly", "yes", "--appendfsync", "always")
	q := testkit.Must(Open(Config{Redis: redis.Config{Addrs: []string{s.Addr()}}, Limits: deferredtest.LargeLimits}))(b)
	defer func() { _ = q.Close() }()
	calls := func() (n float64) {
		for _, found := range regexp.MustCompile(`cmdstat_eval(?:sha)?:calls=(\d+)`).FindAllStringSubmatch(s.Do("info",
			"commandstats"), -1) {
			c, _ := strconv.ParseFloat(found[1], 64)
			n += c
		}
		return n
	}
	body := bytes.Repeat([]byte("x"), 1<<10)
	places := make(chan struct{}, 256)
	before, began := calls(), time.Now()
	var all sync.WaitGroup
	for i := range b.N {
		places <- struct{}{}
		e := order(fmt.Sprint("shop ", i%1000))
		e.Body = body
		all.Add(1)
		q.Put(time.Now(), &deferred.PutRequest{Entry: e, Done: func(st deferred.PutResult) {
			if st.Outcome != deferred.Accepted {
				b.Errorf("%s, %v", st.Outcome, st.Err)
			}
			<-places
			all.Done()
		}})
	}
	all.Wait()
	stored, took := calls(), time.Since(began)
	began = time.Now()
	for left := b.N; left > 0; {
		claimed, _, err := q.Claim(b.Context(), time.Now(), 256)
		if err != nil {
			b.Fatal(err)
		}
		left -= len(claimed)
		all.Add(len(claimed))
		for _, c := range claimed {
			q.Settle(time.Now(), &deferred.Settlement{Lease: c.Lease, To: deferred.Done, Keep: time.Hour,
				Done: func(error) { all.Done() }})
		}
		all.Wait()
	}
	n := float64(b.N)
	b.ReportMetric((stored-before)/n, "calls/put")
	b.ReportMetric((calls()-stored)/n, "calls/delivery")
	b.ReportMetric(n/took.Seconds(), "puts/s")
	b.ReportMetric(n/time.Since(began).Seconds(), "deliveries/s")
}
