package file

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"weir/internal/net/share"
	"weir/proxy/deferred"
)

// A brief is half of a SHA-256, used as the key of a map.
type brief [16]byte

// An Item is the part of an entry in a line that is kept in memory.
type Item struct {
	ID         deferred.ID
	Seq        uint64
	Wake       int64 // µs: when it is due or expires, whichever comes first
	accepted   int64 // µs
	scope      uint64
	next, prev uint32
	line       uint32
	client     uint32
	nth        uint32 // number within its line, by order of acceptance; it may wrap around
	Size       uint32
	Delivering bool
	unlinked   bool // removed from its line; Forget follows when that is durable
}

// A line has the open entries of one key of a rule, in the order of acceptance.
type line struct {
	key        brief
	rule       uint32
	head, tail uint32
	entries    int32
	last       uint32 // nth of the item added last
	parallel   int32  // how many of the first items may be delivering at the same time
	slot       int32  // position in its rule's heap, from 1; 0: not in the heap
	keyed      bool   // the rule has a key; false: it has one line for all requests
	at         int64  // µs: when the first item that may be claimed is due
	served     int64  // µs: when an item last left or was postponed, so that lines take turns
	bytes      int64
}

// A client has open entries.
type client struct {
	network [16]byte // of its share.Client, without a pointer
	entries int32
	bytes   int64
}

// A Rule is a rule that has or had entries.
type Rule struct {
	Name   string
	Paused bool
	States [deferred.StateCount]deferred.EntryCount

	due dueHeap
}

// An Index has all entries in lines.
//
// Not safe for concurrent use.
type Index struct {
	Open  int    // entries in lines
	Bytes int64  // of all entries, including final ones
	Seen  int64  // µs: the latest time seen
	Last  uint64 // the largest sequence number assigned

	items   slab[Item]
	lines   slab[line]
	clients slab[client]
	rules   []*Rule

	// gaps has, by line, the nth of items that were removed from the middle of the line, in order.
	gaps map[uint32][]uint32

	// Numbers of items, lines and clients. An item that was unlinked may have a successor with its ID
	// already; then byID has that one.
	byID     map[deferred.ID]uint32
	byScope  map[uint64]uint32 // by a part of the scope
	byLine   map[brief]uint32
	byClient map[[16]byte]uint32
	byRule   map[string]uint32
}

// New returns an index without entries.
func New() *Index {
	return &Index{gaps: make(map[uint32][]uint32), byID: make(map[deferred.ID]uint32),
		byScope: make(map[uint64]uint32), byLine: make(map[brief]uint32),
		byClient: make(map[[16]byte]uint32), byRule: make(map[string]uint32)}
}

// drop removes key if its number is i.
func drop[K comparable](numbers map[K]uint32, key K, i uint32) {
	if numbers[key] == i {
		delete(numbers, key)
	}
}

// scopeOf returns the part of a scope that is kept in memory.
func scopeOf(scope deferred.SHA256) uint64 { return binary.LittleEndian.Uint64(scope[:]) }

// Rule returns the rule with that name.
func (x *Index) Rule(name string) *Rule { return x.rules[x.rule(name)] }

// RuleOf returns the name of the rule of item number i.
func (x *Index) RuleOf(i uint32) string { return x.rules[x.lines.at(x.items.at(i).line).rule].Name }

// At returns item number i.
func (x *Index) At(i uint32) *Item { return x.items.at(i) }

// rule returns the number of the rule with that name, and adds the rule if it is new.
func (x *Index) rule(name string) uint32 {
	i, ok := x.byRule[name]
	if !ok {
		i = uint32(len(x.rules))
		x.rules = append(x.rules, &Rule{Name: name, due: dueHeap{of: &x.lines}})
		x.byRule[name] = i
	}
	return i
}

// Count adds n entries like e, each of the given size in bytes, to the counts of its rule and
// state.
func (x *Index) Count(e *deferred.Entry, size int64, n int) {
	c := &x.rules[x.rule(e.Rule)].States[e.State]
	c.Entries += n
	c.Bytes += int64(n) * size
	x.Bytes += int64(n) * size
}

// Add appends an entry to its line and returns its position there.
func (x *Index) Add(e *deferred.Entry, size int64, seq uint64) (position int) {
	x.Count(e, size, 1)
	x.Last = max(x.Last, seq)
	x.Open++
	i := x.items.add()
	it := x.items.at(i)
	*it = Item{
		ID: e.ID, Seq: seq, accepted: e.Accepted.UnixMicro(), Size: uint32(size),
		line: x.lineOf(e), client: x.clientOf(e.Client()), Delivering: e.State == deferred.Delivering,
	}
	it.Wake = wake(e)
	l := x.lines.at(it.line)
	l.parallel = int32(e.ParallelMax())
	l.last++
	it.nth, it.prev = l.last, l.tail
	if l.tail != 0 {
		x.items.at(l.tail).next = i
	} else {
		l.head = i
	}
	l.tail = i
	x.charge(it, 1, int64(it.Size))
	x.byID[it.ID] = i
	if e.Keyed() {
		it.scope = scopeOf(e.Scope)
		x.byScope[it.scope] = i
	}
	x.schedule(it.line)
	return int(l.entries)
}

// wake returns when a waiting entry must be claimed.
func wake(e *deferred.Entry) int64 { return min(e.Due.UnixMicro(), e.Expires.UnixMicro()) }

// lineKey returns the key that identifies a line.
func lineKey(rule, key string) brief {
	sum := sha256.Sum256(append(append(append(make([]byte, 0, 128), rule...), 0), key...))
	return brief(sum[:16])
}

// findLine returns the number of e's line, or 0.
func (x *Index) findLine(e *deferred.Entry) uint32 { return x.byLine[lineKey(e.Rule, e.LineKey)] }

// findClient returns the number of a client, or 0.
func (x *Index) findClient(c share.Client) uint32 {
	if c == (share.Client{}) {
		return 0
	}
	return x.byClient[c.Addr().As16()]
}

func (x *Index) lineOf(e *deferred.Entry) uint32 {
	key := lineKey(e.Rule, e.LineKey)
	i := x.byLine[key]
	if i == 0 {
		i = x.lines.add()
		*x.lines.at(i) = line{key: key, rule: x.rule(e.Rule), keyed: e.LineKey != ""}
		x.byLine[key] = i
	}
	return i
}

// clientOf returns the number of a client, and adds the client if it is new. It is 0 for the zero
// Client.
func (x *Index) clientOf(c share.Client) uint32 {
	if c == (share.Client{}) {
		return 0
	}
	i := x.findClient(c)
	if i == 0 {
		i = x.clients.add()
		network := c.Addr().As16()
		x.clients.at(i).network = network
		x.byClient[network] = i
	}
	return i
}

// Unlink removes item number i, whose entry so far is e, from its line. FindAny finds it until
// Forget.
func (x *Index) Unlink(i uint32, e *deferred.Entry) {
	x.Count(e, int64(x.items.at(i).Size), -1)
	x.Open--
	it := x.items.at(i)
	it.unlinked = true
	l := x.lines.at(it.line)
	if it.prev != 0 {
		x.items.at(it.prev).next = it.next
	} else {
		l.head = it.next
	}
	if it.next != 0 {
		x.items.at(it.next).prev = it.prev
	} else {
		l.tail = it.prev
	}
	x.leaveGap(it)
	drop(x.byScope, it.scope, i)
	x.charge(it, -1, -int64(it.Size))
	x.schedule(it.line)
	if l.entries == 0 {
		delete(x.byLine, l.key)
		x.lines.remove(it.line)
	}
}

// charge adds entries and bytes to the counts of an item's line and client.
func (x *Index) charge(it *Item, entries int32, bytes int64) {
	l := x.lines.at(it.line)
	l.entries += entries
	l.bytes += bytes
	if it.client == 0 {
		return
	}
	c := x.clients.at(it.client)
	c.entries += entries
	c.bytes += bytes
	if c.entries == 0 {
		delete(x.byClient, c.network)
		x.clients.remove(it.client)
	}
}

// Forget removes an unlinked item.
func (x *Index) Forget(i uint32) {
	drop(x.byID, x.items.at(i).ID, i)
	x.items.remove(i)
}

// FindAny returns the number of the item with that ID, even if it is unlinked, or 0.
func (x *Index) FindAny(id deferred.ID) uint32 { return x.byID[id] }

// FindByScope returns the number of an item whose entry probably has the scope, or 0.
func (x *Index) FindByScope(scope deferred.SHA256) uint32 { return x.byScope[scopeOf(scope)] }

// Find returns the number of the item with that ID that is in a line, or 0.
func (x *Index) Find(id deferred.ID) uint32 {
	if i := x.byID[id]; i != 0 && !x.items.at(i).unlinked {
		return i
	}
	return 0
}

// Delivering returns the numbers of all items that are delivering.
func (x *Index) Delivering() (all []uint32) {
	for n := range x.allLines {
		for i := x.lines.at(n).head; i != 0; i = x.items.at(i).next {
			if x.items.at(i).Delivering {
				all = append(all, i)
			}
		}
	}
	slices.Sort(all)
	return all
}

// Position returns the position of item number i in its line, counted from 1.
func (x *Index) Position(i uint32) (n int) {
	if i == 0 || x.items.at(i).unlinked {
		return 0
	}
	it := x.items.at(i)
	head := x.items.at(x.lines.at(it.line).head).nth
	return 1 + int(it.nth-head) - before(x.gaps[it.line], head, it.nth)
}

// leaveGap records that an item has left its line, so that positions can be computed without
// walking along the line. A line with more gaps than items is renumbered.
func (x *Index) leaveGap(it *Item) {
	l, gaps := x.lines.at(it.line), x.gaps[it.line]
	switch {
	case l.head == 0:
		gaps = nil
	case len(gaps) >= int(l.entries):
		gaps = nil
		x.number(l)
	case it.prev != 0:
		head := x.items.at(l.head).nth
		gaps = slices.Insert(gaps, before(gaps, head, it.nth), it.nth)
	default: // the items behind it are now at the head
		head := x.items.at(l.head).nth
		gaps = gaps[before(gaps, it.nth, head):]
	}
	if len(gaps) > 0 {
		x.gaps[it.line] = gaps
	} else {
		delete(x.gaps, it.line)
	}
}

// number renumbers the items of a line without gaps.
func (x *Index) number(l *line) {
	l.last = 0
	for i := l.head; i != 0; i = x.items.at(i).next {
		l.last++
		x.items.at(i).nth = l.last
	}
}

// before returns how many gaps of a line are before nth, counted from head.
func before(gaps []uint32, head, nth uint32) int {
	n, _ := slices.BinarySearchFunc(gaps, nth-head, func(gap, at uint32) int { return cmp.Compare(gap-head, at) })
	return n
}

// Update sets item number i, which must not be counted, to the state of its entry, with the given
// size in bytes. Its line counts as served at now.
func (x *Index) Update(now int64, i uint32, e *deferred.Entry, size int64) {
	x.Count(e, size, 1)
	it := x.items.at(i)
	x.charge(it, 0, size-int64(it.Size))
	it.Size = uint32(size)
	it.Wake, it.Delivering = wake(e), e.State == deferred.Delivering
	x.lines.at(it.line).served = now
	x.schedule(it.line)
}

// Stats returns the content for each rule.
func (x *Index) Stats() []deferred.RuleStats {
	out := make([]deferred.RuleStats, len(x.rules))
	for i, r := range x.rules {
		out[i] = deferred.RuleStats{Rule: r.Name, Paused: r.Paused, States: r.States}
	}
	for n := range x.allLines {
		l := x.lines.at(n)
		s := &out[l.rule]
		if t := time.UnixMicro(x.items.at(l.head).accepted); s.Oldest.IsZero() || t.Before(s.Oldest) {
			s.Oldest = t
		}
	}
	slices.SortFunc(out, func(a, b deferred.RuleStats) int { return cmp.Compare(a.Rule, b.Rule) })
	return out
}
