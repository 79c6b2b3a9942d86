package redis

import (
	"strconv"
	"strings"

	"weir/proxy/limit"
	"weir/proxy/store"
)

// namespace follows the prefix in all names in Redis. After it, the states of keys have a
// digit or #, and documents have a letter.
const namespace = "ratelimiter:"

// appendName appends the name of a counter's state: that of store.AppendKey with the key's value
// as hash tag, and the kind of the limit,
//
//	per-partner, acme, 100 in a minute → ratelimiter:11:per-partner{4:acme}fixed:60000000
//
// so that in a Cluster all rules with the same key are in one slot. A rule whose id has a
// brace has another hash tag, but still a separate name.
func appendName(dst []byte, prefix string, c *store.Counter) []byte {
	return c.Limit.Kind().Append(appendBase(dst, prefix, c.Rule, c.Key))
}

// appendBase appends the common prefix of all names of a key, which no other name has.
func appendBase(dst []byte, prefix, rule string, key []byte) []byte {
	dst = append(append(dst, prefix...), namespace...)
	tag := len(store.AppendRule(dst, rule))
	dst = append(store.AppendKey(dst, rule, key), "{}"...)
	copy(dst[tag+1:], dst[tag:len(dst)-2])
	dst[tag], dst[len(dst)-1] = '{', '}'
	return dst
}

// slots is the number of hash slots of a Cluster.
const slots = 16384

// slotOf returns the slot of a name: the CRC-16/XMODEM of its hash tag, or of the whole name
// if it has none (Redis Cluster specification).
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

// counterArgs is the number of arguments of a counter for the scripts. If its moreArgs
// further ones are not all 0, they follow, and moreMark is added to its algorithm. If it has a debt,
// that and the number of requests follow as well, and debtMark is added.
const (
	counterArgs = 4
	moreArgs    = 5
	moreMark    = 16
	debtArgs    = 2
	debtMark    = 32
)

// appendArgs appends the arguments of a counter of so many requests, each followed by a space.
func appendArgs(dst []byte, c *store.Counter, requests int) []byte {
	args, n := c.Params(), counterArgs
	if [moreArgs + 1]int64(args[counterArgs:]) != [moreArgs + 1]int64{} {
		args[0] += moreMark
		n += moreArgs
	}
	if c.Debt > 0 {
		args[0] += debtMark
		n++
	}
	for _, arg := range args[:n] {
		dst = append(strconv.AppendInt(dst, arg, 10), ' ')
	}
	if c.Debt > 0 {
		dst = append(strconv.AppendInt(dst, int64(requests), 10), ' ')
	}
	return dst
}

// counterText has the arguments of one counter.
type counterText struct {
	args [counterArgs + moreArgs + debtArgs]string
	n    int
}

func (t *counterText) all() []string { return t.args[:t.n] }

// cut splits the text of appendArgs, without copying.
func (t *counterText) cut(text string) (rest string) {
	t.n = counterArgs
	for i := 0; i < t.n; i++ {
		t.args[i], text, _ = strings.Cut(text, " ")
		switch mark := t.args[0]; {
		case i > 0 || len(mark) == 1: // algorithms have one digit, with moreMark two
		case mark[0] < '4':
			t.n += moreArgs
		default:
			t.n += moreArgs + debtArgs
		}
	}
	return text
}

// appendGive appends the arguments of a counter for give.lua, which explains slot: of several
// places in a queue it is that of the first.
func appendGive(args []string, l *limit.Limit, permits, slot int64) []string {
	n := (&store.Counter{Limit: l}).Params()
	for _, arg := range [...]int64{n[0], n[1], n[2], n[4], permits, slot, n[8]} {
		args = append(args, strconv.FormatInt(arg, 10))
	}
	return args
}

// releaseArgs returns the arguments of a refund for give.lua.
func releaseArgs(r *store.Refund) []string {
	c := &r.Counter
	if c.Limit.Algorithm() == limit.Leaky {
		return appendGive([]string{"-1"}, c.Limit, c.Cost, r.Instant)
	}
	return appendGive([]string{strconv.FormatInt(r.Instant, 10)}, c.Limit, c.Cost, 0)
}

// stateOf parses a state as written by the scripts.
func stateOf(raw string, s *limit.State) bool {
	if raw == "" {
		*s = limit.State{}
		return true
	}
	var space [64]byte // enough except for logs
	return s.Parse(append(space[:0], raw...))
}
