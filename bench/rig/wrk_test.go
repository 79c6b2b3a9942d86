package rig

import (
	"testing"
	"time"
)

const wrkSays = `Running 3s test @ http://127.0.0.1:1/api/test
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     2.47ms  710.34us   7.40ms   72.32%
    Req/Sec    25.22k     2.51k   28.66k    70.00%
  Latency Distribution
     50%  950.50us
     75%    2.87ms
     90%    3.32ms
     99%    4.52ms
  75276 requests in 3.00s, 12.20MB read
  Socket errors: connect 0, read 1, write 0, timeout 2
  Non-2xx or 3xx responses: 7
Requests/sec:  25086.52
Transfer/sec:      4.07MB
`

func TestParseWrk(t *testing.T) {
	r, err := parseWrk(wrkSays)
	want := WrkRun{Requests: 75276, PerSecond: 25086.52, P50: 950500 * time.Nanosecond, Failed: 10}
	if err != nil || r != want {
		t.Fatalf("got %+v, %v; want %+v", r, err, want)
	}
	if _, err := parseWrk("unable to connect"); err == nil {
		t.Fatal("nonsense was read as a result")
	}
}
