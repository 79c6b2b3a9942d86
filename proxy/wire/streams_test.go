package wire

import (
	"encoding/binary"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/metrics"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

// raceDetector is set when the tests run with it: everything is slower then.
var raceDetector bool

// streamBytes is how large a body is that must not fit into memory: many times heapMost.
const streamBytes = 256 << 20

// manyPaced is how many exchanges of a kind there are whose clients set the pace.
func manyPaced() int {
	if raceDetector {
		return 100
	}
	return 1000
}

// A stream is a body made up as it is read, of which no two pieces are alike,
// or the sum of one that is written to it.
//
// Owned by its goroutine; done is atomic.
type stream struct {
	left  int64
	block [32 << 10]byte
	ready []byte
	sum   hash.Hash32
	done  atomic.Int64
}

func newStream(n int64) *stream {
	s := &stream{left: n, sum: crc32.New(crc32.MakeTable(crc32.Castagnoli))}
	for i := 0; i < len(s.block); i += 8 {
		binary.LittleEndian.PutUint64(s.block[i:], rand.Uint64())
	}
	return s
}

func (s *stream) Read(p []byte) (int, error) {
	if len(s.ready) == 0 {
		if s.left == 0 {
			return 0, io.EOF
		}
		binary.LittleEndian.PutUint64(s.block[:], uint64(s.left))
		s.ready = s.block[:min(s.left, int64(len(s.block)))]
		s.left -= int64(len(s.ready))
	}
	n := copy(p, s.ready)
	s.ready = s.ready[n:]
	return s.Write(p[:n])
}

func (s *stream) Write(p []byte) (int, error) {
	s.done.Add(int64(len(p)))
	return s.sum.Write(p)
}

// take reads r to its end, and give writes all of the stream, both in pieces of
// an ordinary size and without the shortcuts of io.Copy.
func (s *stream) take(r io.Reader) (int64, error) {
	return io.CopyBuffer(struct{ io.Writer }{s}, struct{ io.Reader }{r}, make([]byte, 32<<10))
}

func (s *stream) give(w io.Writer) error {
	_, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{s}, make([]byte, 32<<10))
	return err
}

// taken reads r to its end, for who.
func taken(t *testing.T, who string, r io.Reader) *stream {
	s := newStream(0)
	if _, err := s.take(r); err != nil {
		t.Errorf("%s reads %v, then %v", who, s, err)
	}
	return s
}

// gives writes all of the stream, for who.
func (s *stream) gives(t *testing.T, who string, w io.Writer) {
	if err := s.give(w); err != nil {
		t.Errorf("%s writes %v, then %v", who, s, err)
	}
}

// arrives fails the test unless what was taken is what was given.
func (s *stream) arrives(t *testing.T, taken fmt.Stringer) {
	t.Helper()
	if taken.String() != s.String() {
		t.Errorf("%v arrive of %v", taken, s)
	}
}

// String tells streams apart.
func (s *stream) String() string {
	return fmt.Sprintf("%d bytes, sum %x", s.done.Load(), s.sum.Sum32())
}

// heap is how many bytes live and dead objects take.
func heap() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// heapAfter is what is left of it after a collection.
func heapAfter() uint64 {
	runtime.GC()
	runtime.GC() // what the first has finalized
	return heap()
}

// heapSettles waits until no more than most bytes are left beside those of before.
// What moved last is let go a moment after it has stopped.
func heapSettles(t *testing.T, before, most uint64) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("at most %d KiB are held", most>>10),
		func() bool { return heapAfter() <= before+most })
}

// watchHeap watches what lives on the heap until the function it returns is
// called, which fails the test when more than most bytes were added. It
// collects before it looks: how much dead the collector leaves lying depends on
// how busy the machine is. It pauses between looks, because a collection takes much
// of a busy machine.
func watchHeap(t *testing.T, most uint64) (end func()) {
	t.Helper()
	before, peak := heapAfter(), uint64(0)
	over, ended := make(chan bool), make(chan bool)
	go func() {
		defer close(ended)
		for {
			runtime.GC()
			peak = max(peak, heap())
			select {
			case <-over:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	return func() {
		t.Helper()
		close(over)
		<-ended
		if added := int64(peak) - int64(before); added > int64(most) {
			t.Errorf("the heap grew by %d KiB, may by %d", added>>10, most>>10)
		}
	}
}

// heapMost is how much of the heap one large stream may take at its peak.
const heapMost = 16 << 20

// newService starts a target that net/http serves. It ends with the test.
func newService(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

// Bodies that are larger than memory arrive whole, in both directions and with
// either framing, in memory that does not grow with them.
func TestLargeBodies(t *testing.T) {
	const n = streamBytes
	sums := make(chan string, 1)
	r := start(t, newService(t, func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodPut {
			fmt.Fprintf(w, "%v, length %d", taken(t, "the target", req.Body), req.ContentLength)
			return
		}
		if req.URL.Path == "/length" {
			w.Header().Set("Content-Length", strconv.Itoa(n))
		}
		body := newStream(n)
		body.gives(t, "the target", w)
		sums <- body.String()
	}), "EVENT_LOOPS", "1")
	for _, framing := range []string{"length", "chunks"} {
		length := map[string]int64{"length": n, "chunks": -1}[framing]
		t.Run("up by "+framing, func(t *testing.T) {
			end := watchHeap(t, heapMost)
			body, conn := newStream(n), r.dial()
			if framing == "length" {
				conn.Send(sized + strconv.Itoa(n) + "\r\n\r\n")
				body.gives(t, "the client", conn)
			} else {
				conn.Send(upload)
				body.gives(t, "the client", newChunks(conn))
				conn.Send("0\r\n\r\n")
			}
			res, got := conn.Answer("PUT")
			if want := fmt.Sprintf("%v, length %d", body, length); res.StatusCode != 200 || got != want {
				t.Errorf("answered %s %q, want %q", res.Status, got, want)
			}
			end()
		})
		t.Run("down by "+framing, func(t *testing.T) {
			end := watchHeap(t, heapMost)
			res := r.answers(r.dial(), request("/"+framing))
			got := taken(t, "the client", res.Body)
			if want := <-sums; res.ContentLength != length || got.String() != want || got.done.Load() != n {
				t.Errorf("the client got %v with length %d, the target gave %s", got, res.ContentLength, want)
			}
			end()
		})
	}
}

// stalls waits until something of every stream and nothing more is sent and fails if more than most bytes
// of any stream were.
func stalls(t *testing.T, streams []*stream, most int64) {
	t.Helper()
	const still = 50 // looks at which nothing has moved
	looks, before := 0, int64(-1)
	testkit.Eventually(t, "the senders are held back", func() bool {
		sum, begun := int64(0), true
		for _, s := range streams {
			n := s.done.Load()
			sum, begun = sum+n, begun && n > 0
		}
		if looks++; sum != before || !begun {
			looks, before = 0, sum
		}
		return looks == still
	})
	for i, s := range streams {
		if n := s.done.Load(); n > most {
			t.Errorf("stream %d: %d KiB were sent to who takes nothing, at most %d may be", i, n>>10, most>>10)
		}
	}
}

// Of stalled streams: how many, how large each is, how much of it the sockets
// on the way may take (Linux lets a receive buffer grow to 32 MiB), and the heap of the proxy for one.
const (
	stalledStreams  = 20
	stalledBytes    = 96 << 20
	stalledSent     = 80 << 20
	stalledHeap     = uint64(1 << 20)
	stalledPatience = "120s" // stalls are no faults here
)

// Clients that do not read hold back targets that are fast. Meanwhile each takes
// little memory; when they read everything arrives.
func TestSlowReaders(t *testing.T) {
	var bodies [stalledStreams]*stream
	for i := range bodies {
		bodies[i] = newStream(stalledBytes)
	}
	r := start(t, newService(t, func(w http.ResponseWriter, req *http.Request) {
		i, err := strconv.Atoi(req.URL.Path[1:])
		if err != nil {
			return // a neighbour
		}
		bodies[i].gives(t, "the target", w)
	}), "WRITE_TIMEOUT", stalledPatience, "STREAM_TIMEOUT", stalledPatience)
	before := heapAfter()
	read := make(chan bool)
	wait := r.together(stalledStreams, func(i int, c *testkit.Conn) {
		_ = c.Conn.(*net.TCPConn).SetReadBuffer(64 << 10)
		c.Send(request(fmt.Sprintf("/%d", i)))
		await(t, read)
		res, err := http.ReadResponse(c.In, nil)
		if err != nil {
			t.Errorf("answer %d: %v", i, err)
			return
		}
		bodies[i].arrives(t, taken(t, "the client", res.Body))
	})
	stalls(t, bodies[:], stalledSent)
	heapSettles(t, before, stalledStreams*stalledHeap)
	r.play(`neighbour GET /neighbour -> 200`)
	close(read)
	wait()
}

// Targets that do not read hold back clients that are fast, likewise.
func TestSlowTargets(t *testing.T) {
	open := make(chan bool)
	r := start(t, newService(t, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/neighbour" {
			return
		}
		await(t, open)
		fmt.Fprint(w, taken(t, "the target", req.Body))
	}), "WRITE_TIMEOUT", stalledPatience, "TARGET_TIMEOUT", stalledPatience, "BODY_TIMEOUT", stalledPatience)
	before := heapAfter()
	var bodies [stalledStreams]*stream
	for i := range bodies {
		bodies[i] = newStream(stalledBytes)
	}
	wait := r.together(stalledStreams, func(i int, c *testkit.Conn) {
		fmt.Fprintf(c, "PUT /%d HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", i, stalledBytes)
		bodies[i].gives(t, "a client", c)
		if res, got, err := final(c.In, "PUT"); err != nil || res.StatusCode != 200 || got != bodies[i].String() {
			t.Errorf("the target got %s of %v, %v", got, bodies[i], err)
		}
	})
	stalls(t, bodies[:], stalledSent)
	heapSettles(t, before, stalledStreams*stalledHeap)
	r.play(`neighbour GET /neighbour -> 200`)
	close(open)
	wait()
}
