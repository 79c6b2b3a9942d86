package redis

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"strings"

	"weir/proxy/limit"
	"weir/proxy/store"
)

// appendName appends the name of a key in Redis: its name in every store (see
// store.AppendKey) with the key's value as hash tag,
//
//	per-partner, acme → 11:per-partner{4:acme}
//
// so that in a Cluster all rules with the same key are in one slot. A rule whose
// id has a brace is still counted apart, but its hash tag is another.
func appendName(dst []byte, prefix, rule string, key []byte) []byte {
	dst = append(dst, prefix...)
	tag := len(store.AppendRule(dst, rule))
	dst = append(store.AppendKey(dst, rule, key), "{}"...)
	copy(dst[tag+1:], dst[tag:len(dst)-2])
	dst[tag], dst[len(dst)-1] = '{', '}'
	return dst
}

// checkPrefix says what is wrong with a prefix of names.
func checkPrefix(prefix string) error {
	if strings.ContainsAny(prefix, "{}") {
		return errors.New("must have no braces, which mark hash tags")
	}
	return nil
}

// slots is the number of hash slots of a Cluster.
const slots = 16384

// slotOf returns the slot of a name: CRC-16/XMODEM of its hash tag, or of all of
// it if it has none, as the Redis Cluster specification has it.
func slotOf(name string) uint16 {
	if open := strings.IndexByte(name, '{'); open >= 0 {
		if length := strings.IndexByte(name[open+1:], '}'); length > 0 {
			name = name[open+1 : open+1+length]
		}
	}
	var crc uint16
	for i := range len(name) {
		crc ^= uint16(name[i]) << 8
		for range 8 {
			carry := crc >> 15
			crc = crc<<1 ^ carry*0x1021
		}
	}
	return crc % slots
}

// counterArgs is how many arguments describe a counter to the scripts.
const counterArgs = 4

// appendArgs appends what the scripts want to know of a counter, each followed by
// a space. A cost above the permits is never admitted, whatever it is; it is sent
// as one that float64 holds.
func appendArgs(dst []byte, l *limit.Limit, cost int64) []byte {
	number := l.Window().Microseconds()
	if l.Algorithm() == limit.Token {
		number = int64(math.Round(l.Config().FillRate * 1e6))
	}
	if cost > l.Permits() {
		cost = 2*l.Permits() + 2
	}
	for _, arg := range [counterArgs]int64{int64(l.Algorithm()), l.Permits(), number, cost} {
		dst = append(strconv.AppendInt(dst, arg, 10), ' ')
	}
	return dst
}

// cutArgs takes apart what appendArgs appended, without copying.
func cutArgs(text string, args *[counterArgs]string) (rest string) {
	for i := range args {
		args[i], text, _ = strings.Cut(text, " ")
	}
	return text
}

// An encoder writes down which group of counters an ask is for.
//
// Owned by its lane.
type encoder struct {
	prefix string
	text   []byte
	ends   [store.CountersMax]int // of each counter's name
}

// encode returns the group as text: names and arguments in turn. Different groups
// have different texts, as each name says how long it is; a limit or a cost that
// changes makes it another group. The text is valid until the next call.
func (e *encoder) encode(counters []store.Counter) []byte {
	if len(counters) == 0 || len(counters) > store.CountersMax {
		panic("bug: redis: an ask with " + strconv.Itoa(len(counters)) + " counters")
	}
	e.text = e.text[:0]
	for i := range counters {
		c := &counters[i]
		e.text = appendName(e.text, e.prefix, c.Rule, c.Key)
		e.ends[i] = len(e.text)
		e.text = appendArgs(e.text, c.Limit, c.Cost)
	}
	return e.text
}

// stateOf reads a state as the scripts write it.
func stateOf(raw string, s *limit.State) bool {
	if raw == "" {
		*s = limit.State{}
		return true
	}
	if len(raw) != limit.StateBytes {
		return false
	}
	var b [limit.StateBytes]byte
	copy(b[:], raw)
	s.Read(&b)
	return true
}

// documentBody parts a document as it is kept from its version; see document.lua.
func documentBody(raw []byte) (store.Document, bool) {
	rest, ok := bytes.CutPrefix(raw, []byte(`{"version":`))
	if !ok {
		return store.Document{}, false
	}
	number, rest, ok := bytes.Cut(rest, []byte(`,"document":`))
	version, err := strconv.ParseInt(string(number), 10, 64)
	rest, closed := bytes.CutSuffix(rest, []byte("}"))
	if !ok || !closed || err != nil || version < 1 {
		return store.Document{}, false
	}
	return store.Document{Body: rest, Version: version}, true
}
