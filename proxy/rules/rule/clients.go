package rule

import (
	"hash/maphash"
	"slices"

	"weir/internal/data/strict"
	"weir/proxy/limit"
	"weir/proxy/rules/keys"
)

// Clients are the limits of single clients, from CLIENTS_FILE.
//
// A file may name very many clients. The names are stored in one string, an entry takes
// 16 bytes, and clients with the same limit share it. Entries are found by open
// addressing in a table that is at most three quarters full.
//
// Immutable after New.
type Clients struct {
	names   []byte
	entries []client
	table   []uint32 // index of an entry plus 1; 0: free
	seed    maphash.Seed
	limits  []limit.Limit
	classes []string
	notes   strict.Faults
}

// A client is an entry of the file.
type client struct {
	end   uint32 // end of its name in names; the name starts where the previous one ends
	limit uint32 // index
	cost  uint32 // 0: the rule's
	class uint32 // index plus 1; 0: the rule's
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
// Each name is a value of a rule's key; spellings of credentials and cookies count as the same
// value. With the key ip that is an address or network such as 192.0.2.7 or 2001:db8:1:2::/64.
// parts are the key parts whose values name clients. If one of them is secret, faults show names as
// digests. The error is a [strict.Faults].
func ReadClients(data []byte, parts ...keys.Part) (*Clients, error) {
	j := judge{Reader: new(strict.Reader)}
	b := clientsBuilder{
		judge:  j,
		c:      &Clients{seed: maphash.MakeSeed()},
		limits: make(map[limit.Config]uint32),
		secret: slices.ContainsFunc(parts, keys.Part.Secret),
	}
	j.Members(data, clientsBytesMax, b.client)
	if err := j.Err(); err != nil {
		return nil, err
	}
	b.c.names, b.c.entries = slices.Clone(b.c.names), slices.Clone(b.c.entries) // without spare capacity
	b.c.limits = slices.Clone(b.c.limits)
	b.c.notes = j.Notes()
	return b.c, nil
}

// A clientsBuilder makes Clients from a file.
//
// Owned by one call of ReadClients.
type clientsBuilder struct {
	judge
	c      *Clients
	limits map[limit.Config]uint32 // by configuration, without numbers that have no effect
	secret bool                    // names are shown as digests
}

// clientText is a client as written in the file.
type clientText struct {
	limit.Config
	Cost     int64  `json:"cost"`
	Priority string `json:"priority"`
}

// client reads one member of the file.
func (b *clientsBuilder) client(name strict.Name, n *strict.Node) {
	word := string(name.Word)
	told := word
	if b.secret {
		told = keys.Redacted(name.Word)
	}
	b.Root, b.Base = n, strict.MemberPath("", told)
	switch {
	case len(word) > clientBytesMax:
		b.Base = strict.MemberPath("", told[:min(20, len(told))]+"…")
		b.Fault("", "must be at most %d bytes long, is %d", clientBytesMax, len(word))
		return
	case len(b.c.entries) == clientsMax:
		b.Fault("", "must be at most %d clients", clientsMax)
		return
	case b.c.find(name.Word) != nil:
		b.Fault("", "given twice")
		return
	}
	text := clientText{Cost: 1}
	if !b.Decode(n, "", &text) {
		return
	}
	b.Filled(n, "", "priority")
	b.Range("cost", text.Cost, 1, costMax)
	entry := client{limit: b.limit(n, text.Config)}
	if given(n, "cost") {
		entry.cost = uint32(text.Cost)
	}
	if text.Priority != "" {
		entry.class = b.class(text.Priority)
	}
	b.c.add(word, entry)
}

// limit returns the index of a client's limit.
func (b *clientsBuilder) limit(n *strict.Node, c limit.Config) uint32 {
	if i, ok := b.limits[c]; ok {
		return i
	}
	faults := b.Count()
	l := b.judge.limit(n, "", c)
	if b.Count() > faults {
		return 0
	}
	i, ok := b.limits[l.Config()]
	if !ok {
		i = uint32(len(b.c.limits))
		b.c.limits = append(b.c.limits, l)
		b.limits[l.Config()] = i
	}
	b.limits[c] = i
	return i
}

// class returns the index of a class plus 1.
func (b *clientsBuilder) class(word string) uint32 {
	i := slices.Index(b.c.classes, word)
	if i < 0 {
		i = len(b.c.classes)
		if i == clientClassesMax {
			b.Fault("priority", "must be one of at most %d different ones in a file, is %q", clientClassesMax, word)
			return 0
		}
		b.c.classes = append(b.c.classes, word)
	}
	return uint32(i + 1)
}

// Len returns the number of clients.
func (c *Clients) Len() int { return len(c.entries) }

// Notes returns the parts of the file that have no effect, such as a burst with algorithm
// fixed. Of equal limits only the first is noted, and there are at most 100 notes.
func (c *Clients) Notes() strict.Faults { return c.notes }

func (c *Clients) find(name []byte) *client {
	if len(c.table) == 0 {
		return nil
	}
	if at := c.table[c.place(name)]; at > 0 {
		return &c.entries[at-1]
	}
	return nil
}

// place returns the position of a name in the table, or where it would be.
func (c *Clients) place(name []byte) int {
	mask := len(c.table) - 1 // the length is a power of two
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

// add adds a client whose name is not in the table yet.
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

// respell finds the clients whose names are written otherwise than keys have them, such as
// Bearer x, which is bearer x in keys.
func (j *judge) respell(c *compiled, s *Set) {
	if !c.Clients || !c.Key[0].Normalizes() {
		return
	}
	for i := range s.clients.entries {
		name := s.clients.name(i)
		normal, err := c.Key[0].Normal(name)
		if err != nil || string(normal) == string(name) {
			continue
		}
		_, twice := c.respelled[string(normal)]
		if twice || s.clients.find(normal) != nil {
			j.Fault("", "must not have a client twice in the client file: %q is the same %s as another", s.nameOf(name),
				c.Key[0])
			continue
		}
		if c.respelled == nil {
			c.respelled = make(map[string]int)
		}
		c.respelled[string(normal)] = i
	}
}

// clientOf returns the client that a value of the rule's key stands for, or nil.
func (c *compiled) clientOf(clients *Clients, value []byte) *client {
	if i, ok := c.respelled[string(value)]; ok {
		return &clients.entries[i]
	}
	return clients.find(value)
}
