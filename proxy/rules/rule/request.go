package rule

import (
	"net/netip"
	"slices"

	"weir/proxy/rules/keys"
	"weir/proxy/rules/pattern"
)

// A Scratch is the memory in which requests are matched, one after another.
//
// Owned by its loop.
type Scratch struct {
	request *keys.Request
	client  netip.Addr
	parts   []keys.Part
	matched []MatchedRule
	values  []value                            // by slot
	paths   [pattern.InterpretationsMax][]byte // interpretations of the path
	pathN   int                                // number of interpretations; 0: not computed
	host    []byte
	hostIs  bool // host is computed
	read    keys.Interpretations
	// parts that can be read in several ways, and the rules that match and have one in their key
	several []several
	unclear []int
	// memory holds keys and decoded values. When it grows, slices of the old memory stay
	// valid.
	memory []byte
}

// A value is the value of a part in a request, or its first interpretation if there are several.
type value struct {
	text    []byte
	secret  []byte // of a secret part: as it appears in keys, once needed
	known   bool   // looked up
	present bool
	many    bool // there are more interpretations than can be counted, so it counts as missing
	several bool // there are several interpretations
}

// begin starts with a new request.
func (x *Scratch) begin(parts []keys.Part, r *keys.Request, client netip.Addr) {
	x.request, x.client, x.parts = r, client, parts
	x.matched, x.memory = x.matched[:0], x.memory[:0]
	x.several, x.unclear = x.several[:0], x.unclear[:0]
	x.pathN, x.hostIs = 0, false
	if cap(x.values) < len(parts) { // slices.Grow takes 3 ns longer
		x.values = make([]value, len(parts))
	}
	x.values = x.values[:len(parts)]
	clear(x.values)
}

func (x *Scratch) value(slot int) value {
	v := &x.values[slot]
	if !v.known {
		v.known = true
		if p := &x.parts[slot]; p.Source == keys.Header || p.Source == keys.Cookie || p.Source == keys.Query {
			x.readPart(slot)
		} else {
			v.text, v.present = x.find(*p)
		}
	}
	return *v
}

// look looks up the values of slots.
func (x *Scratch) look(slots []int) {
	for _, slot := range slots {
		x.value(slot)
	}
}

// field returns the value of the field that a slot stands for, or nil without a slot.
func (x *Scratch) field(slot int) []byte {
	if slot == none {
		return nil
	}
	return x.value(slot).text
}

func (x *Scratch) find(p keys.Part) (text []byte, present bool) {
	switch p.Source {
	case keys.IP:
		if !x.client.IsValid() {
			return nil, false
		}
		start := len(x.memory)
		x.memory = p.AppendAddress(x.memory, x.client)
		return x.memory[start:], true
	case keys.Path:
		x.memory, text, present = pattern.UnambiguousPathPart(x.memory, x.interpretations())
		return text, present
	case keys.Method:
		return x.request.MethodText, true
	case keys.Host:
		return x.hostOf(), len(x.request.Host) > 0
	}
	return nil, false
}

// interpretations returns the interpretations of the path, at least one.
func (x *Scratch) interpretations() [][]byte {
	if x.pathN == 0 {
		if path := x.request.Path; pattern.IsNormal(path) {
			x.paths[0], x.pathN = path, 1
		} else {
			x.memory, x.pathN = pattern.AppendInterpretations(x.memory, path, &x.paths)
		}
	}
	return x.paths[:x.pathN]
}

// matchesOtherwise reports whether a pattern matches an interpretation of the path other than the
// first.
func (x *Scratch) matchesOtherwise(p *pattern.Pattern) bool {
	return x.pathN > 1 && slices.ContainsFunc(x.paths[1:x.pathN], func(path []byte) bool { return p.Matches(path[1:]) })
}

// holdsOtherwise reports whether a condition on the path holds in one of several
// interpretations.
func (x *Scratch) holdsOtherwise(c *condition) bool {
	return x.pathN > 1 && x.parts[c.Slot].Source == keys.Path &&
		slices.ContainsFunc(x.paths[:x.pathN], func(path []byte) bool { return c.holds(value{text: path, present: true}) })
}

// hostOf returns the host in normal form; see [pattern.AppendHost].
func (x *Scratch) hostOf() []byte {
	if !x.hostIs {
		start := len(x.memory)
		x.memory = pattern.AppendHost(x.memory, x.request.Host)
		x.hostIs, x.host = true, x.memory[start:]
	}
	return x.host
}

func (x *Scratch) key(slots []int) []byte {
	for _, slot := range slots { // values may be appended to the same memory meanwhile
		if v := x.value(slot); v.present && v.secret == nil && x.parts[slot].MarkedSecret() {
			start := len(x.memory)
			x.memory = keys.AppendSecret(x.memory, v.text)
			x.values[slot].secret = x.memory[start:]
		}
	}
	start := len(x.memory)
	for _, slot := range slots {
		switch v := x.value(slot); {
		case !v.present:
			x.memory = keys.AppendMissingPart(x.memory)
		case v.secret != nil:
			x.memory = append(x.memory, v.secret...)
		default:
			x.memory = keys.AppendPart(x.memory, v.text)
		}
	}
	return x.memory[start:]
}
