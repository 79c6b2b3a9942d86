package drive

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/program/metric"
	"weir/internal/test/testkit"
	"weir/loadgen/plan"
	"weir/loadgen/record"
)

// A bench runs plans and keeps what they log and measure.
type bench struct {
	t       *testing.T
	metrics *metric.Set
	meters  *Metrics
	loops   int
	age     time.Duration // how long requests may wait
	caFile  string
	log     testkit.Log
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, metrics: metric.New()}
	b.meters = NewMetrics(b.metrics, 4)
	return b
}

// against returns a bench of a parallel test, and a target that treats connections as each does.
func against(t *testing.T, each func(c *served)) (*bench, *scriptedServer) {
	t.Parallel()
	return newBench(t), serve(t, each)
}

// A test's configuration; zero fields are left out.
type test struct {
	URL         string         `json:"limiterUrl"`
	Duration    float64        `json:"duration"`
	Profile     map[string]any `json:"profile"`
	Protocol    string         `json:"protocol,omitempty"`
	Concurrency int            `json:"concurrency,omitempty"`
	Streams     int            `json:"streams,omitempty"`
	PerThread   int            `json:"requestsPerThread,omitempty"`
	StartAt     string         `json:"startAt,omitempty"`
	Shard       map[string]int `json:"shard,omitempty"`
	Options     map[string]any `json:"requestOptions,omitempty"`
	Thresholds  map[string]any `json:"thresholds,omitempty"`
}

// load is a test of the given rate on addr.
func load(addr string, rps, seconds float64) test {
	return test{
		URL: "http://" + addr + "/api/test", Duration: seconds,
		Profile: map[string]any{"type": "constant", "params": map[string]any{"rps": rps}},
	}
}

func planOf(t *testing.T, c test) *plan.Plan {
	t.Helper()
	text := testkit.Must(json.Marshal(c))(t)
	p, err := plan.Parse(time.Now(), text, "")
	if err != nil {
		t.Fatalf("configuration %s: %v", text, err)
	}
	return p
}

func (b *bench) start(c test) *Run {
	b.t.Helper()
	r, err := Start("t1", planOf(b.t, c), Settings{Loops: b.loops, Metrics: b.meters, Logger: b.logger, CAFile: b.caFile,
		queueAge: b.age})
	if err != nil {
		b.t.Fatalf("start: %v", err)
	}
	b.t.Cleanup(func() {
		r.Stop()
		<-r.Done()
	})
	return r
}

func (b *bench) logger(component string) *slog.Logger {
	return b.log.Logger().With("component", component)
}

// run runs a test to its end and checks the books.
func (b *bench) run(c test) *record.Result {
	b.t.Helper()
	return b.finish(b.start(c))
}

func (b *bench) finish(r *Run) *record.Result {
	b.t.Helper()
	select {
	case <-r.Done():
	case <-time.After(testkit.Timeout):
		b.t.Fatalf("the run does not end: %+v", r.Status())
	}
	checkBooks(b.t, r.Result())
	return r.Result()
}

// checkBooks reports whether every request that was due is accounted for.
func checkBooks(t *testing.T, r *record.Result) {
	t.Helper()
	if r.Completed != r.Success+r.RateLimited+r.Shed+r.Errors {
		t.Errorf("%d completed, but %d+%d+%d", r.Completed, r.Success, r.RateLimited, r.Errors)
	}
	if r.Attempted()+r.Dropped != r.Completed+r.Abandoned {
		t.Errorf("%d attempted and %d dropped, but %d completed and %d abandoned", r.Attempted(), r.Dropped, r.Completed,
			r.Abandoned)
	}
	if r.Due != r.Attempted()+r.Dropped+r.Unsent {
		t.Errorf("%d due, but %d attempted, %d dropped and %d unsent", r.Due, r.Attempted(), r.Dropped, r.Unsent)
	}
	var errs uint64
	for _, n := range r.ErrorsByReason {
		errs += n
	}
	if errs != r.Errors {
		t.Errorf("%d errors, but %v", r.Errors, r.ErrorsByReason)
	}
	var due, sent, done uint64
	for _, row := range r.Series.Rows {
		due, sent, done = due+row.Due, sent+row.Sent, done+row.Success+row.RateLimited+row.Shed+row.Errors
	}
	if r.Due > 0 && (sent != r.Attempted() || done != r.Completed) {
		t.Errorf("the rows say %d sent and %d completed, the result %d and %d", sent, done, r.Attempted(), r.Completed)
	}
	if r.Latency.Count != r.Completed {
		t.Errorf("%d latencies of %d outcomes", r.Latency.Count, r.Completed)
	}
}

// A scriptedServer answers each connection by a function; it lives as long as
// the test.
type scriptedServer struct {
	addr     string
	requests atomic.Int64
	accepted atomic.Int64
}

// serve starts a server that calls each with every connection and a reader of
// its requests, and closes the connection when it returns.
func serve(t *testing.T, each func(c *served)) *scriptedServer {
	t.Helper()
	l := testkit.Listen(t)
	s := &scriptedServer{addr: l.Addr().String()}
	var wg sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	wg.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			s.accepted.Add(1)
			mu.Lock()
			open[nc] = true
			mu.Unlock()
			wg.Go(func() {
				defer nc.Close()
				each(&served{Conn: nc, server: s, in: bufio.NewReader(nc)})
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for nc := range open {
			nc.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return s
}

// served is one connection of a scriptedServer.
type served struct {
	net.Conn
	server *scriptedServer
	in     *bufio.Reader
}

// request reads one request; false when there is none.
func (c *served) request() bool {
	r, err := http.ReadRequest(c.in)
	if err != nil {
		return false
	}
	r.Body.Close()
	c.server.requests.Add(1)
	return true
}

func (c *served) say(text string) { fmt.Fprint(c, text) }

// silence reads all requests and answers none.
func silence(c *served) {
	for c.request() {
	}
}

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK"

// answerAll answers every request with text.
func answerAll(text string) func(c *served) {
	return func(c *served) {
		for c.request() {
			c.say(text)
		}
	}
}

// exposition is the exposition of the bench's metrics.
func (b *bench) exposition() string {
	var text strings.Builder
	b.metrics.Write(&text)
	return text.String()
}

func (b *bench) wantMetric(line string) {
	b.t.Helper()
	if !strings.Contains(b.exposition(), line+"\n") {
		b.t.Errorf("no line %q in the metrics", line)
	}
}
