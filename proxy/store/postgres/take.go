package postgres

import (
	"cmp"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"weir/proxy/limit"
	"weir/proxy/store"
)

const (
	// namespace begins the names of keys, after the prefix, and of documents.
	namespace = "ratelimiter:"
	// locksMax is how many locks there are, of which each key has one. It is part of what
	// take_1 and its callers agree on.
	locksMax = 1024
	// lockClass is the first number of those locks, in lock_1.
	lockClass = 1464158546
	// callCountersMax bounds the counters of one call, and with it the locks that it holds:
	// a server has room for 6,400 by default.
	callCountersMax = 64
	// stateNumbers are what take_1 tells of a state, entryNumbers of an entry of a log.
	stateNumbers, entryNumbers = 6, 3
	// exactMax bounds the numbers of package limit.
	exactMax = 1 << 53
)

// errForeign is the error of a group of which a key holds something else.
var errForeign = errors.New("a row of table keys holds something else than the state of a limit")

// appendBase appends what all names of a key begin with, and no name of another key.
func appendBase(dst []byte, prefix, rule string, key []byte) []byte {
	return store.AppendKey(append(append(dst, prefix...), namespace...), rule, key)
}

// lockOf is the number of the lock of a key.
func lockOf(base []byte) int32 { return int32(crc32.ChecksumIEEE(base) % locksMax) }

// A take is one call of take_1 that is being put together, and the groups that it decides.
type take struct {
	prefix  string
	groups  []*store.Group
	names   []string
	places  map[string]int64 // of names, from 1
	locks   []int32
	gives   []int64
	numbers []int64
	count   int // of counters
	name    []byte
}

func newTake(prefix string) *take {
	return &take{prefix: prefix, places: make(map[string]int64)}
}

// takes puts a batch into as few calls as there may be, in order.
func takes(prefix string, b *store.Batch) []*take {
	t := newTake(prefix)
	all := []*take{t}
	for i := range b.Releases {
		if t.count == callCountersMax {
			t = newTake(prefix)
			all = append(all, t)
		}
		t.give(&b.Releases[i])
	}
	for _, g := range b.Groups {
		if t.count+len(g.Counters) > callCountersMax {
			t = newTake(prefix)
			all = append(all, t)
		}
		t.ask(g)
	}
	return all
}

// place returns the number of a key among the names.
func (t *take) place(c *store.Counter) int64 {
	t.name = appendBase(t.name[:0], t.prefix, c.Rule, c.Key)
	lock := lockOf(t.name)
	t.name = c.Limit.Kind().Append(t.name)
	if place := t.places[string(t.name)]; place > 0 {
		return place
	}
	name := string(t.name)
	t.names = append(t.names, name)
	t.places[name] = int64(len(t.names))
	if at, known := slices.BinarySearch(t.locks, lock); !known {
		t.locks = slices.Insert(t.locks, at, lock)
	}
	return int64(len(t.names))
}

// give adds a place in a queue that is given back.
func (t *take) give(r *store.Release) {
	c := &r.Counter
	_, grace := c.Limit.Overshoot()
	t.gives = append(t.gives, t.place(c), c.Limit.Burst(), c.Limit.Number(), cut(c, c.Cost), r.Slot, grace.Microseconds())
	t.count++
}

// ask adds a group. Counters that are off are left out.
func (t *take) ask(g *store.Group) {
	t.groups = append(t.groups, g)
	head := len(t.numbers)
	t.numbers = append(t.numbers, 0, int64(g.N))
	for i := range g.Counters {
		c := &g.Counters[i]
		l := c.Limit
		if l.Algorithm() == limit.Off {
			continue
		}
		var gain, delay int64
		switch l.Algorithm() {
		case limit.GCRA:
			gain = l.Permits()
		case limit.Leaky:
			delay = min(max(0, c.MaxDelay.Microseconds()), exactMax)
		}
		overshoot, grace := l.Overshoot()
		t.numbers = append(t.numbers, t.place(c), int64(l.Algorithm()), l.Burst(), l.Number(), cut(c, c.Cost),
			gain, cut(c, c.Reserve), delay, overshoot, grace.Microseconds())
		t.numbers[head]++
		t.count++
	}
}

// cut returns a cost or a reserve as it is sent: one above the permits is never admitted,
// whatever it is.
func cut(c *store.Counter, permits int64) int64 {
	overshoot, _ := c.Limit.Overshoot()
	if most := c.Limit.Burst() + overshoot; permits > most {
		return 2*most + 2
	}
	return permits
}

// binaryFormat has arguments and results sent in PostgreSQL's binary format.
var binaryFormat = []int16{1}

// takeTypes are the types of params.
var takeTypes = []uint32{oidInt8, oidInt4, oidInt4Array, oidByteaArray, oidInt8Array, oidInt8Array}

// params are the arguments of take_1: clock is 0 for the server's, patience is in ms.
func (t *take) params(clock int64, patience int32) [][]byte {
	return [][]byte{int8Value(clock), int4Value(patience), int4Array(t.locks), stringArray(oidBytea, t.names),
		int8Array(t.gives), int8Array(t.numbers)}
}

// A taken is what take_1 returned.
type taken struct {
	instant, waits, given    int64
	granted, states, entries []int64
}

// parseTaken reads the one row that take_1 returns, whose columns are the fields of one.
func parseTaken(r *pgconn.Result) (res taken, err error) {
	if len(r.Rows) != 1 || len(r.Rows[0]) != 1 {
		return res, errForm
	}
	row, err := parseRecord(r.Rows[0][0])
	if err != nil || len(row) != 6 {
		return res, errForm
	}
	waits, err1 := parseInt4(row[1])
	given, err2 := parseInt4(row[2])
	res.waits, res.given = int64(waits), int64(given)
	err = cmp.Or(err1, err2)
	for i, dst := range []*[]int64{&res.granted, &res.states, &res.entries} {
		if *dst, err1 = parseInt8Array(row[3+i]); err == nil {
			err = err1
		}
	}
	if res.instant, err1 = parseInt8(row[0]); err == nil {
		err = err1
	}
	return res, err
}

// deliver tells the groups what was decided about them.
func (t *take) deliver(r *taken) error {
	if len(r.granted) != len(t.groups) || len(r.entries)%entryNumbers != 0 {
		return errForm
	}
	counter := 0
	for i, g := range t.groups {
		granted := r.granted[i]
		if granted < -1 || granted > int64(g.N) {
			return errForm
		}
		g.Err = nil
		if granted == -1 {
			g.Err = errForeign
		}
		g.Granted = int(max(0, granted))
		for k := range g.Counters {
			g.At[k], g.Before[k] = 0, limit.State{}
			if g.Counters[k].Limit.Algorithm() == limit.Off {
				continue
			}
			g.At[k] = r.instant
			if len(r.states) < (counter+1)*stateNumbers || !r.state(counter, &g.Before[k]) {
				return errForm
			}
			counter++
		}
	}
	return nil
}

// state reads that of a counter, which take_1 has told in numbers, as limit.State reads it.
func (r *taken) state(counter int, s *limit.State) bool {
	numbers := r.states[counter*stateNumbers:][:stateNumbers]
	if numbers[0] == 0 {
		return true
	}
	var space [64]byte // of all but logs
	raw := space[:0]
	logs := limit.Algorithm(numbers[0]>>56) == limit.SlidingLog
	for i, n := range numbers {
		if i < 4 || logs || numbers[4] != 0 {
			raw = binary.LittleEndian.AppendUint64(raw, uint64(n))
		}
	}
	for len(r.entries) > 0 && r.entries[0] == int64(counter+1) {
		raw = limit.AppendEntry(raw, r.entries[1], r.entries[2])
		r.entries = r.entries[entryNumbers:]
	}
	return s.Parse(raw)
}
