package asks

import (
	"encoding/binary"
	"errors"

	"weir/proxy/limit"
	"weir/proxy/store"
)

// ErrUndecided is the error of a group that the other proxy's store did not decide, or not in
// time. It is unknown what was charged.
var ErrUndecided = errors.New("the master could not decide about this key")

// Fingerprints are the answer to GET /v1/marks in JSON. Each changes with what it stands for.
type Fingerprints struct {
	Edits     string            `json:"edits"`     // changes when a key is edited
	Documents map[string]string `json:"documents"` // by name; changes with the document
}

// AppendHead appends the head of an answer: the mode of the deciding store, and the number of
// asks whose answers follow.
func AppendHead(dst []byte, mode store.Mode, asks int) []byte {
	return binary.LittleEndian.AppendUint16(append(dst, Version, byte(mode)), uint16(asks))
}

// AppendAnswer appends the answer to one Traced ask.
func AppendAnswer(dst []byte, ans *store.Answer) []byte {
	dst = append(dst, byte(ans.Mode))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(ans.Granted))
	dst = append(dst, byte(len(ans.Prior)))
	for i := range ans.Prior {
		t := &ans.Prior[i]
		dst = binary.LittleEndian.AppendUint64(dst, uint64(t.At))
		at := len(dst)
		dst = t.Before.Append(binary.LittleEndian.AppendUint32(dst, 0))
		binary.LittleEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	}
	return dst
}

// ParseAnswer fills in the results of groups, each of which has a counter that is not off, and
// returns the mode of the deciding store. The error is a *MessageError or a VersionError; then the
// results are meaningless.
func ParseAnswer(b []byte, groups []*store.Group) (mode store.Mode, err error) {
	r := reader{b: b}
	if v := r.u8(); r.fault == nil && v != Version {
		return 0, VersionError(v)
	}
	mode = r.mode()
	at := r.at
	if n := r.u16(); r.fault == nil && n != len(groups) {
		r.fail(at, "there must be as many answers as asks")
	}
	for _, g := range groups {
		r.group(g)
	}
	r.end()
	if r.fault != nil {
		return 0, r.fault
	}
	return mode, nil
}

func (r *reader) mode() store.Mode {
	at := r.at
	m := store.Mode(r.u8())
	if m > store.Closed {
		r.fail(at, "there is no such mode")
	}
	return m
}

func (r *reader) group(g *store.Group) {
	mode := r.mode()
	at := r.at
	if g.Granted = r.u32(); g.Granted > g.N {
		r.fail(at, "more are granted than were asked for")
	}
	at = r.at
	traces := int(r.u8())
	if g.Err, g.Alone = nil, mode == store.Local; mode != store.Exact && !g.Alone {
		g.Err = ErrUndecided
		if traces > 0 {
			r.fail(at, "what was not decided has no states")
		}
		return
	}
	for i := range g.Counters {
		g.At[i], g.Before[i] = 0, limit.State{}
		if g.Counters[i].Limit.Algorithm() == limit.Off {
			continue
		}
		traces--
		g.At[i] = r.number()
		from := r.at
		if state := r.bytes(r.u32()); r.fault == nil && !g.Before[i].Parse(state) {
			r.fail(from, "this is not the state of a limit")
		}
	}
	if traces != 0 {
		r.fail(at, "there must be as many states as counters")
	}
}
