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
	// locksMax is the number of locks to which keys are mapped, also in take_1.
	locksMax = 1024
	// lockClass is the first number of these locks, as in lock_1 and take_one_1.
	lockClass = 1464158546
	// callCountersMax bounds the counters of one call, and with it the locks that it holds:
	// a server has room for 6,400 by default.
	callCountersMax = 64
	// stateNumbers is how many numbers take_1 returns for a state, entryNumbers for a log entry.
	stateNumbers, entryNumbers = 6, 3
	// counterNumbers is how many numbers take_1 takes for a counter, without the place of its key, and
	// debtMark is added to the number of counters if their debts follow.
	counterNumbers, debtMark = 9, 16
	// chargeNumbers is how many numbers take_many_1 takes for a key.
	chargeNumbers = 8
)

// errForeign is the error of a group with a key whose row is not the state of a limit.
var errForeign = errors.New("a row of table keys holds something other than the state of a limit")

// appendBase appends the common prefix of all names of a key, which no name of another key has.
func appendBase(dst []byte, prefix, rule string, key []byte) []byte {
	return store.AppendKey(append(append(dst, prefix...), namespace...), rule, key)
}

// lockOf returns the number of a key's lock.
func lockOf(base []byte) int32 { return int32(crc32.ChecksumIEEE(base) % locksMax) }

// A take is a call that is being built, and the groups that it decides. Groups whose key no other
// group of the call has are kept separately if take_many_1 may decide them.
//
// Owned by its maker.
type take struct {
	prefix string
	locks  []int32
	rows   map[string]*row // by name
	used   []*row          // rows of counters that are not off, in order, until delivered
	count  int             // number of used rows
	buf    []byte

	singles       []*store.Group
	singleNames   []string
	singleNumbers []int64 // arguments of take_1 for their groups
	charges       []int64 // of singles: the arguments of take_many_1

	groups  []*store.Group // the other groups, and the arguments of take_1 for them
	names   []string
	gives   []int64
	numbers []int64
}

// A row is a key's row in table keys.
type row struct {
	name  string
	uses  int   // number of groups and refunds that use it
	place int64 // in names, from 1; 0: not there yet
}

func newTake(prefix string) *take {
	return &take{prefix: prefix, rows: make(map[string]*row)}
}

// takes distributes a batch over as few calls as possible, in order.
func takes(prefix string, b *store.Batch) (all []*take) {
	refunds, groups := b.Refunds, b.Groups
	for len(refunds)+len(groups) > 0 || all == nil {
		t, r, g := newTake(prefix), 0, 0
		for ; r < len(refunds) && t.count < callCountersMax; r++ {
			t.use(&refunds[r].Counter)
		}
		for ; r == len(refunds) && g < len(groups) && t.count+len(groups[g].Counters) <= callCountersMax; g++ {
			for i := range groups[g].Counters {
				t.use(&groups[g].Counters[i])
			}
		}
		for i := range refunds[:r] {
			t.give(&refunds[i])
		}
		for _, group := range groups[:g] {
			t.ask(group)
		}
		refunds, groups = refunds[r:], groups[g:]
		all = append(all, t)
	}
	return all
}

func (t *take) use(c *store.Counter) {
	if c.Limit.Algorithm() == limit.Off {
		return
	}
	t.buf = appendBase(t.buf[:0], t.prefix, c.Rule, c.Key)
	lock := lockOf(t.buf)
	t.buf = c.Limit.Kind().Append(t.buf)
	r := t.rows[string(t.buf)]
	if r == nil {
		r = &row{name: string(t.buf)}
		t.rows[r.name] = r
		if at, known := slices.BinarySearch(t.locks, lock); !known {
			t.locks = slices.Insert(t.locks, at, lock)
		}
	}
	r.uses++
	t.used = append(t.used, r)
	t.count++
}

// next returns the row of the next counter that is not off.
func (t *take) next() *row {
	r := t.used[0]
	t.used = t.used[1:]
	return r
}

// place returns the number of a row among the names for take_1.
func (t *take) place(r *row) int64 {
	if r.place == 0 {
		t.names = append(t.names, r.name)
		r.place = int64(len(t.names))
	}
	return r.place
}

// give adds a refund. For gcra the limit takes the place of the burst: settle_1 needs the limit,
// and the burst only affects what is free, which a refund of gcra does not use.
func (t *take) give(r *store.Refund) {
	n := r.Counter.Params()
	t.gives = append(t.gives, t.place(t.next()), cmp.Or(n[4], n[1]), n[2], n[3], r.Instant, n[8])
}

// ask adds a group, without counters that are off.
func (t *take) ask(g *store.Group) {
	if t.askSingle(g) {
		return
	}
	t.groups = append(t.groups, g)
	head := len(t.numbers)
	t.numbers = append(t.numbers, 0, int64(g.N))
	late, debts := false, [store.CountersMax]int64{}
	for i := range g.Counters {
		if c := &g.Counters[i]; c.Limit.Algorithm() != limit.Off {
			t.numbers = appendCounter(t.numbers, t.place(t.next()), c)
			debts[t.numbers[head]], late = c.Debt, late || c.Debt > 0
			t.numbers[head]++
		}
	}
	if late {
		t.numbers = append(t.numbers, debts[:t.numbers[head]]...)
		t.numbers[head] += debtMark
	}
}

// appendCounter appends the arguments of take_1 for a counter, without its debt.
func appendCounter(numbers []int64, place int64, c *store.Counter) []int64 {
	n := c.Params()
	return append(append(numbers, place), n[:counterNumbers]...)
}

// only returns the one counter of a group that is not off, or nil if there are several.
func only(g *store.Group) (one *store.Counter) {
	for i := range g.Counters {
		if c := &g.Counters[i]; c.Limit.Algorithm() != limit.Off {
			if one != nil {
				return nil
			}
			one = c
		}
	}
	return one
}

// askSingle adds a group if take_many_1 may decide it, and reports whether it does.
func (t *take) askSingle(g *store.Group) bool {
	c := only(g)
	if c == nil || g.N < 1 {
		return false
	}
	l, n := c.Limit, int64(g.N)
	overshoot, _ := l.Overshoot()
	algorithm := l.Algorithm()
	switch {
	case algorithm != limit.Token && algorithm != limit.GCRA || overshoot > 0 || t.used[0].uses > 1 || c.Debt > 0:
		return false
	case c.Cost < 1 || c.Cost > l.Burst()/n || c.Reserve > l.Burst()-n*c.Cost: // not all of the requests might be admitted
		return false
	}
	permit, gain := l.PermitParts()
	room, charge, b := (l.Burst()-c.Reserve)*permit, n*c.Cost*permit, int64(0)
	if algorithm == limit.GCRA {
		b = gain
	}
	r := t.next()
	t.singles, t.singleNames = append(t.singles, g), append(t.singleNames, r.name)
	t.singleNumbers = appendCounter(append(t.singleNumbers, 1, n), 1, c)
	t.charges = append(t.charges, int64(algorithm)<<56|l.WindowOrRate(), b, charge, gain,
		room-charge, store.ExactIntMax/gain+1, (charge+gain-1)/gain, room-c.Cost*permit)
	return true
}

// binaryFormat selects PostgreSQL's binary format for arguments and results.
var binaryFormat = []int16{1}

// A function is one of the deciding functions; its value is an index of functions.
type function int

const (
	takeAny function = iota
	takeOne
	takeMany
	functionCount
)

// functions are their names.
var functions = [functionCount]string{"take_1", "take_one_1", "take_many_1"}

// sql returns a statement that calls the function. The result is selected as one value: selecting
// from the function as a table costs a tenth more.
func (f function) sql(schema string, args *Args) string {
	return "SELECT " + schema + functions[f] + "(" + places(len(args.values)) + ")"
}

// call returns the function that decides the whole call, and its arguments. A clock of 0 means
// the server's; patience is in ms.
func (t *take) call(clock int64, patience int32) (f function, args *Args) {
	args = new(Args).Int8(clock).Int4(patience)
	switch others := len(t.groups)+len(t.gives) > 0; {
	case len(t.singles) == 0:
		return takeAny, args.Int4s(t.locks).Names(t.names).Int8s(t.gives).Int8s(t.numbers)
	case len(t.singles) == 1 && !others:
		args.Int4(t.locks[0]).Bytes([]byte(t.singleNames[0]))
		for _, n := range t.charges[:chargeNumbers-1] {
			args.Int8(n)
		}
		return takeOne, args.Int8s(t.singleNumbers)
	}
	args.Int4s(t.locks).Names(t.singleNames).Int8s(t.charges).Int8s(t.singleNumbers)
	return takeMany, args.Names(t.names).Int8s(t.gives).Int8s(t.numbers)
}

// A taken is the result of a deciding function. Only take_many_1 returns the last three.
type taken struct {
	instant, waits, given    int64
	granted, states, entries []int64
	places, ats, aheads      []int64
}

// parseTaken parses the row that a deciding function returns, whose columns are the fields of a
// taken.
func parseTaken(r *pgconn.Result) (res taken, err error) {
	if len(r.Rows) != 1 || len(r.Rows[0]) != 1 {
		return res, errForm
	}
	row, err := parseRecord(r.Rows[0][0])
	if err != nil || len(row) != 6 && len(row) != 9 {
		return res, errForm
	}
	f := NewFields(row)
	res.instant, res.waits, res.given = f.Int8(), int64(f.Int4()), int64(f.Int4())
	lists := [...]*[]int64{&res.granted, &res.states, &res.entries, &res.places, &res.ats, &res.aheads}
	for _, list := range lists[:len(row)-3] {
		*list = f.Int8s()
	}
	return res, f.Err
}

func (t *take) deliver(r *taken) error {
	if len(r.ats) != len(r.places) || len(r.aheads) != len(r.places) || len(r.entries)%entryNumbers != 0 {
		return errForm
	}
	done := make([]bool, len(t.singles))
	for i, place := range r.places {
		index := max(place, -place) - 1
		if index < 0 || index >= int64(len(done)) || done[index] {
			return errForm
		}
		done[index] = true
		g, charge := t.singles[index], t.charges[index*chargeNumbers:]
		one := taken{instant: r.instant, granted: []int64{0}, states: []int64{charge[0], r.ats[i], r.aheads[i], charge[1],
			0, 0}}
		if place > 0 {
			one.granted[0] = int64(g.N)
		}
		if r.ats[i] == 0 {
			clear(one.states)
		}
		if err := one.deliver([]*store.Group{g}); err != nil {
			return err
		}
	}
	rest := t.groups
	for i, g := range t.singles {
		if !done[i] {
			rest = append(rest, g)
		}
	}
	return r.deliver(rest)
}

func (t *take) fail(err error) {
	for _, g := range slices.Concat(t.singles, t.groups) {
		g.Err = err
	}
}

// deliver passes the answers of take_1 to the groups.
func (r *taken) deliver(groups []*store.Group) error {
	if len(r.granted) != len(groups) {
		return errForm
	}
	counter := 0
	for i, g := range groups {
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

// state decodes the state of a counter from the numbers of take_1.
func (r *taken) state(counter int, s *limit.State) bool {
	numbers := r.states[counter*stateNumbers:][:stateNumbers]
	if numbers[0] == 0 {
		return true
	}
	var space [64]byte // enough for all states without a log
	raw := space[:0]
	logs := limit.Algorithm(numbers[0]>>56) == limit.SlidingLog
	for i, n := range numbers {
		if i < 4 || logs || numbers[4] != 0 {
			raw = binary.LittleEndian.AppendUint64(raw, uint64(n))
		}
	}
	for len(r.entries) > 0 && r.entries[0] == int64(counter+1) {
		raw = limit.AppendLogEntry(raw, r.entries[1], r.entries[2])
		r.entries = r.entries[entryNumbers:]
	}
	return s.Parse(raw)
}
