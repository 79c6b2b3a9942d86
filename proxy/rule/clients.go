package rule

import (
	"hash/maphash"
	"slices"
	"strings"

	"weir/proxy/limit"
)

// Clients are the limits of single clients, from CLIENTS_FILE.
//
// A file may name very many: the names lie one behind the other in one text, an
// entry is 16 bytes, and clients with the same limit share it. Entries are found
// by open addressing in a table that is at most three quarters full.
//
// Immutable after New.
type Clients struct {
	names   []byte
	entries []client
	table   []uint32 // index of an entry and 1; 0: free
	seed    maphash.Seed
	limits  []limit.Limit
	classes []string
	notes   Faults
}

// A client is an entry of the file.
type client struct {
	end   uint32 // of its name in names; it begins where the one before ends
	limit uint32 // index
	cost  uint32 // 0: as the rule has it
	class uint32 // index and 1; 0: as the rule has it
}

const (
	clientsMax       = 5_000_000
	clientBytesMax   = 1024 // of a name
	clientsBytesMax  = 1 << 30
	clientClassesMax = 2 * listMax
)

// ReadClients reads a client file:
//
//	{"acme":{"algorithm":"token","capacity":50,"fillRate":5,"cost":1,"priority":"high"},…}
//
// Each name is compared with the value of a rule's key, byte by byte; with the
// key ip that is an address or network such as 192.0.2.7 or 2001:db8:1:2::/64.
// keys are the parts whose values name clients; when one of them is secret, faults show
// names as digests. The error is a [Faults].
func ReadClients(data []byte, keys ...Part) (*Clients, error) {
	var j judge
	if len(data) > clientsBytesMax {
		j.fault(0, "", "must be at most %d bytes, is %d", clientsBytesMax, len(data))
		return nil, j.verdict()
	}
	if !j.validUTF8(data) {
		return nil, j.verdict()
	}
	r, ok := j.newJSONReader(data)
	if !ok {
		return nil, j.verdict()
	}
	if r.peek() != '{' {
		n := r.value("", 0)
		j.wrong(&n, "", kindObject)
		return nil, j.verdict()
	}
	b := clientsBuilder{
		jsonReader: r,
		c:          &Clients{seed: maphash.MakeSeed()},
		texts:      make(map[string]uint32),
		limits:     make(map[limit.Config]uint32),
		secret:     slices.ContainsFunc(keys, Part.Secret),
	}
	b.pos++
	for b.peek() != '}' {
		b.client()
	}
	if err := j.verdict(); err != nil {
		return nil, err
	}
	b.c.names, b.c.entries = slices.Clone(b.c.names), slices.Clone(b.c.entries) // without room to grow
	b.c.limits = slices.Clone(b.c.limits)
	b.c.notes = j.notes
	return b.c, nil
}

// A clientsBuilder makes Clients of a file.
//
// Owned by one call of ReadClients.
type clientsBuilder struct {
	*jsonReader
	c      *Clients
	texts  map[string]uint32       // limits by how they are written
	limits map[limit.Config]uint32 // limits by what they mean
	secret bool                    // names are not told
}

// client reads one member of the file.
func (b *clientsBuilder) client() {
	word, line := b.text(), b.line
	name := word
	if b.secret {
		name = shown([]byte(word))
	}
	path := join("", name)
	n := b.value(path, 1)
	switch {
	case len(word) > clientBytesMax:
		b.j.fault(line, join("", name[:min(20, len(name))]+"…"), "must be at most %d bytes long, is %d", clientBytesMax, len(word))
		return
	case len(b.c.entries) == clientsMax:
		b.j.fault(line, path, "must be at most %d clients", clientsMax)
		return
	case b.c.find([]byte(word)) != nil:
		b.j.fault(line, path, "given twice")
		return
	}
	o := b.j.object(&n, path, clientFields...)
	entry := client{limit: b.limit(o)}
	if cost, at := o.at("cost"); cost != nil {
		entry.cost = uint32(b.j.whole(cost, at, 1, costMax))
	}
	if class := o.text("priority"); class != "" {
		entry.class = b.class(class, o)
	}
	b.c.add(word, entry)
}

// clientFields are the fields of a client.
var clientFields = append(slices.Clone(limitFields), "cost", "priority")

// limit returns the index of a client's limit.
func (b *clientsBuilder) limit(o object) uint32 {
	var text strings.Builder
	for i, member := range o.names {
		if member.word != "cost" && member.word != "priority" {
			text.WriteString(member.word + "\x00" + o.kids[i].kind.String() + "\x00" + o.kids[i].word + "\x00")
		}
	}
	if i, ok := b.texts[text.String()]; ok {
		return i
	}
	faults := len(b.j.faults) + b.j.further
	_, l := b.j.limit(o)
	if len(b.j.faults)+b.j.further > faults {
		return 0
	}
	i, ok := b.limits[l.Config()]
	if !ok {
		i = uint32(len(b.c.limits))
		b.c.limits = append(b.c.limits, l)
		b.limits[l.Config()] = i
	}
	b.texts[text.String()] = i
	return i
}

// class returns the index of a class and 1.
func (b *clientsBuilder) class(word string, o object) uint32 {
	i := slices.Index(b.c.classes, word)
	if i < 0 {
		i = len(b.c.classes)
		if i == clientClassesMax {
			n, at := o.at("priority")
			b.j.fault(n.line, at, "must be one of at most %d different ones in a file, is %v", clientClassesMax, n)
			return 0
		}
		b.c.classes = append(b.c.classes, word)
	}
	return uint32(i + 1)
}

// Len returns the number of clients.
func (c *Clients) Len() int { return len(c.entries) }

// Notes returns what of the file has no effect, such as a burst with algorithm fixed:
// of equal limits the first, and at most 100.
func (c *Clients) Notes() Faults { return c.notes }

// find returns the entry of a client, nil when there is none.
func (c *Clients) find(name []byte) *client {
	if len(c.table) == 0 {
		return nil
	}
	if at := c.table[c.place(name)]; at > 0 {
		return &c.entries[at-1]
	}
	return nil
}

// place returns where in the table a name is, or would be.
func (c *Clients) place(name []byte) int {
	mask := len(c.table) - 1 // a power of two less one
	i := int(maphash.Bytes(c.seed, name)) & mask
	for c.table[i] != 0 && string(c.name(int(c.table[i])-1)) != string(name) {
		i = (i + 1) & mask
	}
	return i
}

func (c *Clients) name(i int) []byte {
	begin := uint32(0)
	if i > 0 {
		begin = c.entries[i-1].end
	}
	return c.names[begin:c.entries[i].end]
}

// firstOf returns the name of the first client of a class.
func (c *Clients) firstOf(class int) []byte {
	i := slices.IndexFunc(c.entries, func(e client) bool { return int(e.class) == class+1 })
	return c.name(i)
}

// add adds a client whose name is not there yet.
func (c *Clients) add(name string, entry client) {
	if (len(c.entries)+1)*4 > len(c.table)*3 {
		c.table = make([]uint32, max(8, 2*len(c.table)))
		for i := range c.entries {
			c.table[c.place(c.name(i))] = uint32(i + 1)
		}
	}
	place := c.place([]byte(name))
	c.names = append(c.names, name...)
	entry.end = uint32(len(c.names))
	c.entries = append(c.entries, entry)
	c.table[place] = uint32(len(c.entries))
}
