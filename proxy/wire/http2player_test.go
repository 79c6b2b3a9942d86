package wire

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	xnet "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"weir/internal/test/testkit"
)

// An http2Trial is one case, sent in one way by a client with an address of its own.
type http2Trial struct {
	*http2Case
	octets    []byte
	neighbour uint32
	split     int // where the octets are parted; 0: whole
	from      string
}

// TestHTTP2Corpus sends every case of testdata/http2 to the proxy, whole and in two parts, and compares what
// the client is told and what the target sees with the verdict. Unless the connection ends, a neighbouring
// stream must be answered.
func TestHTTP2Corpus(t *testing.T) {
	t.Parallel()
	rec := &recorder{seen: make(map[string][]*seen)}
	target := newTarget(t, rec.script)
	r := startWith(t, func(c *Config) { c.HTTP2.PriorKnowledge = true }, target.url(), "HTTP2", "all")
	trials := http2Trials(t)
	t.Logf("%d cases, %d trials", len(http2Corpus(t)), len(trials))
	var turns sync.WaitGroup
	queue := make(chan *http2Trial)
	for range 16 {
		turns.Go(func() {
			for tr := range queue {
				if err := tr.play(r); err != nil {
					t.Errorf("%s split at %d (%s): %v", tr.name, tr.split, tr.rule, err)
				}
			}
		})
	}
	for _, tr := range trials {
		queue <- tr
	}
	close(queue)
	turns.Wait()
	checkBaseLine(r)
	rec.mu.Lock()
	defer rec.mu.Unlock()
	for _, tr := range trials {
		if err := tr.judgeForwarded(rec.seen[tr.from]); err != nil {
			t.Errorf("%s split at %d (%s): %v", tr.name, tr.split, tr.rule, err)
		}
	}
}

func http2Trials(t *testing.T) (trials []*http2Trial) {
	for _, c := range http2Corpus(t) {
		for _, part := range []int{0, 2, 3} {
			n := len(trials)
			tr := &http2Trial{http2Case: c, from: fmt.Sprintf("127.%d.%d.%d", 1+n>>16, n>>8&255, n&255)}
			var err error
			if tr.octets, tr.neighbour, err = c.octets(tr.from); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			if part > 0 {
				tr.split = len(tr.octets) * (part - 1) / part
			}
			trials = append(trials, tr)
		}
	}
	return trials
}

// An http2Record is what a client has received.
type http2Record struct {
	status map[uint32]int // of final responses
	bodies map[uint32]*bytes.Buffer
	ended  map[uint32]bool
	resets map[uint32]string
	goAway string
	acks   map[string]int
	closed bool
}

// play sends the octets and judges what is received.
func (tr *http2Trial) play(r *rig) error {
	conn := r.dialFrom(tr.from)
	defer conn.Close()
	// The proxy may have closed before it has taken everything.
	_, _ = conn.Write(tr.octets[:tr.split])
	_, _ = conn.Write(tr.octets[tr.split:])
	got := &http2Record{status: make(map[uint32]int), bodies: make(map[uint32]*bytes.Buffer),
		ended: make(map[uint32]bool), resets: make(map[uint32]string), acks: make(map[string]int)}
	got.acks["SETTINGS"] = -1 // the first one does not count
	if err := tr.read(conn, got); err != nil {
		return err
	}
	for i := range tr.wants {
		if err := tr.wants[i].judge(got); err != nil {
			return err
		}
	}
	if tr.ends() {
		return nil
	}
	want := echoOf("GET", "/again/"+tr.from, "")
	if body := got.bodies[tr.neighbour]; got.status[tr.neighbour] != 200 || body == nil || body.String() != want {
		return fmt.Errorf("the neighbouring stream is answered %d %s, RST_STREAM %q, GOAWAY %q", got.status[tr.neighbour],
			body, got.resets[tr.neighbour], got.goAway)
	}
	return nil
}

// read reads until everything that must come has come, or the connection ends.
func (tr *http2Trial) read(conn *testkit.Conn, got *http2Record) error {
	fr := xnet.NewFramer(nil, conn.In)
	fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	for !tr.complete(got) {
		f, err := fr.ReadFrame()
		if err != nil {
			got.closed = true
			return closedBy(err)
		}
		id := f.Header().StreamID
		switch f := f.(type) {
		case *xnet.MetaHeadersFrame:
			got.status[id], _ = strconv.Atoi(f.PseudoValue("status"))
			got.bodies[id] = new(bytes.Buffer)
			got.ended[id] = f.StreamEnded()
		case *xnet.DataFrame:
			got.bodies[id].Write(f.Data())
			got.ended[id] = f.StreamEnded()
		case *xnet.RSTStreamFrame:
			got.resets[id], got.ended[id] = f.ErrCode.String(), true
		case *xnet.GoAwayFrame:
			got.goAway = f.ErrCode.String()
		case *xnet.SettingsFrame:
			if f.IsAck() {
				got.acks["SETTINGS"]++
			}
		case *xnet.PingFrame:
			if f.IsAck() {
				got.acks["PING"]++
			}
		}
	}
	return nil
}

// complete reports whether everything has been received that the verdict names.
func (tr *http2Trial) complete(got *http2Record) bool {
	if tr.ends() {
		return got.closed
	}
	for _, w := range tr.wants {
		if (w.status > 0 || w.reset != "") && !got.ended[w.stream] || w.answers != "" && got.acks[w.answers] == 0 {
			return false
		}
	}
	return got.ended[tr.neighbour]
}

func (w *http2Want) judge(got *http2Record) error {
	status, reset := got.status[w.stream], got.resets[w.stream]
	if w.status > 0 && reset == "NO_ERROR" {
		reset = "" // the rest of a request that is not needed
	}
	switch {
	case w.goAway != "" && (!got.closed || got.goAway != w.goAway):
		return fmt.Errorf("GOAWAY %q, closed %t, want %s; responses %v, resets %v", got.goAway, got.closed, w.goAway,
			got.status, got.resets)
	case w.goAway == "" && w.answers == "" && (status != w.status || reset != w.reset):
		return fmt.Errorf("stream %d: status %d, RST_STREAM %q, GOAWAY %q, want %d and %q", w.stream, status, reset,
			got.goAway, w.status, w.reset)
	}
	return nil
}

// judgeForwarded compares what the target has seen with the verdict.
func (tr *http2Trial) judgeForwarded(all []*seen) error {
	var wants []http2Want
	for _, w := range tr.wants {
		if len(w.request) > 0 {
			wants = append(wants, w)
		}
	}
	forwarded := slices.DeleteFunc(slices.Clone(all),
		func(s *seen) bool { return strings.HasPrefix(s.target(), "/again/") })
	if len(forwarded) > len(wants) || len(forwarded) < len(wants) && !tr.ends() {
		return fmt.Errorf("%d requests are forwarded, want %d", len(forwarded), len(wants))
	}
	for _, s := range forwarded {
		if err := faultsOf(s.raw); err != nil {
			return fmt.Errorf("forwarded head: %w\n%.500q", err, s.raw)
		}
	}
	for _, w := range wants[:len(forwarded)] {
		target, err := plain(w.request[1])
		i := slices.IndexFunc(forwarded, func(s *seen) bool { return s.method() == w.request[0] && s.target() == target })
		if err != nil || i < 0 {
			return fmt.Errorf("no request %v is forwarded, but %.200q", w.request[:2], forwarded[0].raw)
		}
		if err := judgeHTTP2Request(w.request[2:], forwarded[i]); err != nil {
			return fmt.Errorf("forwarded request: %w\n%.500q", err, forwarded[i].raw)
		}
	}
	return nil
}

// judgeHTTP2Request compares a request with "name=value", "!name" for a field that is missing, and "body=…".
func judgeHTTP2Request(wants []string, s *seen) error {
	for _, want := range wants {
		name, value, given := strings.Cut(want, "=")
		value, err := plain(value)
		if err != nil {
			return err
		}
		if name, err = plain(name); err != nil {
			return err
		}
		if name == "body" {
			if s.body != value {
				return fmt.Errorf("body %.100q, want %.100q", s.body, value)
			}
			continue
		}
		name, absent := strings.CutPrefix(name, "!")
		var values []string
		for _, f := range s.head.Fields {
			if strings.EqualFold(string(f.Name), name) {
				values = append(values, string(f.Value))
			}
		}
		if absent && len(values) > 0 || !absent && (!given || !slices.Equal(values, strings.Split(value, "\n"))) {
			return fmt.Errorf("%s: %q", want, values)
		}
	}
	return nil
}
