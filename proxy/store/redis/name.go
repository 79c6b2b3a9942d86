package redis

import (
	"bytes"
	"errors"
	"strconv"
	"strings"

	"weir/proxy/limit"
	"weir/proxy/store"
)

// namespace begins the names of all that is kept in Redis, after the prefix: of the
// states of keys, where a digit or # follows, and of documents, where a letter does.
const namespace = "ratelimiter:"

// appendName appends the name of a key in Redis under limits of a kind: what store has
// as its name (see store.AppendKey) with the key's value as hash tag, and the kind,
//
//	per-partner, acme, 100 in a minute → ratelimiter:11:per-partner{4:acme}fixed:60000000
//
// so that in a Cluster all rules with the same key are in one slot. A rule whose
// id has a brace is still counted apart, but its hash tag is another.
func appendName(dst []byte, prefix, rule string, key []byte, kind limit.Kind) []byte {
	return kind.Append(appendBase(dst, prefix, rule, key))
}

// appendBase appends what all names of a key begin with, and no name of another key.
func appendBase(dst []byte, prefix, rule string, key []byte) []byte {
	dst = append(append(dst, prefix...), namespace...)
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

// counterArgs is how many arguments describe a counter to the scripts. moreArgs are
// more of a counter of which they are not all 0, and moreMark is added to its
// algorithm then.
const (
	counterArgs = 4
	moreArgs    = 5
	moreMark    = 16
)

// exactMax bounds the numbers that a script holds exactly.
const exactMax = 1 << 53

// appendArgs appends what the scripts want to know of a counter, each followed by
// a space. A cost or a reserve above the permits is never admitted, whatever it is;
// it is sent as one that float64 holds.
func appendArgs(dst []byte, c *store.Counter) []byte {
	l := c.Limit
	overshoot, grace := l.Overshoot()
	most := l.Burst() + overshoot
	held := func(permits int64) int64 {
		if permits > most {
			return 2*most + 2
		}
		return permits
	}
	args := [counterArgs + moreArgs]int64{int64(l.Algorithm()), l.Burst(), l.Number(), held(c.Cost),
		gainOf(l), held(c.Reserve), 0, overshoot, grace.Microseconds()}
	if l.Algorithm() == limit.Leaky {
		args[counterArgs+2] = min(max(0, c.MaxDelay.Microseconds()), exactMax)
	}
	n := counterArgs
	if [moreArgs]int64(args[counterArgs:]) != [moreArgs]int64{} {
		args[0] += moreMark
		n += moreArgs
	}
	for _, arg := range args[:n] {
		dst = append(strconv.AppendInt(dst, arg, 10), ' ')
	}
	return dst
}

// gainOf is what a script needs to know of a limit besides its permits and number.
func gainOf(l *limit.Limit) int64 {
	if l.Algorithm() == limit.GCRA {
		return l.Permits()
	}
	return 0
}

// counterText is the arguments of one counter.
type counterText struct {
	args [counterArgs + moreArgs]string
	n    int
}

// all returns the arguments that there are.
func (t *counterText) all() []string { return t.args[:t.n] }

// cut takes apart what appendArgs appended, without copying.
func (t *counterText) cut(text string) (rest string) {
	t.n = counterArgs
	for i := 0; i < t.n; i++ {
		t.args[i], text, _ = strings.Cut(text, " ")
		if i == 0 && len(t.args[0]) > 1 { // algorithms have one digit, with moreMark two
			t.n += moreArgs
		}
	}
	return text
}

// appendGive appends what the script that gives back wants to know of a counter. slot
// is that of the first place in a queue which is given back.
func appendGive(args []string, l *limit.Limit, permits, slot int64) []string {
	_, grace := l.Overshoot()
	for _, arg := range [...]int64{int64(l.Algorithm()), l.Burst(), l.Number(), gainOf(l), permits, slot, grace.Microseconds()} {
		args = append(args, strconv.FormatInt(arg, 10))
	}
	return args
}

// stateOf reads a state as the scripts write it.
func stateOf(raw string, s *limit.State) bool {
	if raw == "" {
		*s = limit.State{}
		return true
	}
	var space [64]byte // of all but logs
	return s.Parse(append(space[:0], raw...))
}

// documentBody parts a document as it is kept from its version; see document.lua.
func documentBody(raw []byte) (store.Document, bool) {
	rest, ok := bytes.CutPrefix(raw, []byte(`{"version":`))
	if !ok {
		return store.Document{}, false
	}
	number, rest, ok := bytes.Cut(rest, []byte(`,"document":`))
	version, err := strconv.ParseUint(string(number), 10, 63) // digits only
	rest, closed := bytes.CutSuffix(rest, []byte("}"))
	if !ok || !closed || len(number) > versionDigitsMax || err != nil || version < 1 {
		return store.Document{}, false
	}
	return store.Document{Body: rest, Version: int64(version)}, true
}
