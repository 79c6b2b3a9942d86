package lane

import (
	"context"
	"testing"
	"time"

	"weir/proxy/store"
)

// A processor that is busy for a moment does not open the breaker: batches that
// miss their deadline together count as one.
func TestBreaker(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_768_780_800, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	type step struct {
		what      string
		now, sent int
		news      bool
	}
	for name, steps := range map[string][]step{
		"five in a row": {
			{"late", 100, 0, false}, {"late", 200, 100, false}, {"late", 300, 200, false}, {"late", 400, 300, false},
			{"late", 500, 400, true},
			{"late", 600, 500, false}, {"back", 700, 0, true}, {"back", 701, 0, false}},
		"an answer in between": {
			{"late", 100, 0, false}, {"late", 200, 100, false}, {"late", 300, 200, false}, {"late", 400, 300, false},
			{"answered", 0, 0, false},
			{"late", 500, 400, false}, {"late", 600, 500, false}, {"late", 700, 600, false}, {"late", 800, 700, false},
			{"late", 900, 800, true}},
		"many at a time are one": {
			{"late", 100, 0, false}, {"late", 101, 1, false}, {"late", 102, 2, false}, {"late", 103, 3, false},
			{"late", 104, 4, false}, {"late", 105, 5, false}},
		"an error at once": {{"failed", 10, 0, true}, {"failed", 11, 1, false}, {"back", 20, 0, true},
			{"failed", 30, 25, true}},
		"an error from before": {
			{"failed", 10, 0, true}, {"back", 20, 0, true}, {"failed", 30, 9, false}, {"late", 40, 9, false}},
	} {
		b := breaker{misses: missesDefault}
		for i, s := range steps {
			var news bool
			switch s.what {
			case "late":
				news = b.late(at(s.now), at(s.sent))
			case "failed":
				news = b.failed(at(s.now), at(s.sent))
			case "back":
				news = b.back(at(s.now))
			case "answered":
				b.answered()
			}
			if news != s.news {
				t.Errorf("%s, step %d %+v: news %v", name, i, s, news)
			}
		}
	}
}

// givenUp is a backend whose errors mean that this side has given up.
type givenUp struct{ Backend }

func (givenUp) Classify(error) store.Fault { return store.Fault{} }

// A batch that this side has given up says nothing about the store: late batches before and
// after it are still late in a row.
func TestGivenUpIsNoAnswer(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, test := range []struct {
		err  error
		want int
	}{{context.Canceled, 1}, {nil, 0}} {
		s := &Store{backend: givenUp{}, stopping: context.Background()}
		s.breaker.misses = 2
		s.breaker.late(now, now)
		b := &batch{groups: []*group{{Group: store.Group{N: 1, Err: test.err}}}, landed: now}
		b.load(now)
		b.judge(s)
		if s.breaker.missed != test.want {
			t.Errorf("after %v: %d batches are late in a row, want %d", test.err, s.breaker.missed, test.want)
		}
	}
}
