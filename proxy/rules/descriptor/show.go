package descriptor

import (
	"fmt"
	"maps"
	"slices"
)

// AppendText appends a line for each limit, as envoyproxy/ratelimit shows them, in the order of the names; none
// if d is nil.
func (d *Domains) AppendText(dst []byte) []byte {
	if d == nil {
		return dst
	}
	for _, name := range slices.Sorted(maps.Keys(d.byName)) {
		dst = d.byName[name].root.appendText(dst, name)
	}
	return dst
}

func (l *list) appendText(dst []byte, above string) []byte {
	if l == nil {
		return dst
	}
	for _, key := range slices.Sorted(maps.Keys(l.byKey)) {
		at := l.byKey[key]
		if at.bare != nil {
			dst = at.bare.appendText(dst, above+"."+key)
		}
		for _, value := range slices.Sorted(maps.Keys(at.exact)) {
			dst = at.exact[value].appendText(dst, above+"."+key+"_"+value)
		}
	}
	return dst
}

func (n *node) appendText(dst []byte, name string) []byte {
	switch l := n.limit; {
	case l == nil:
	case l.Unlimited:
		dst = fmt.Appendf(dst, "%s: unlimited\n", name)
	default:
		dst = fmt.Appendf(dst, "%s: unit=%s requests_per_unit=%d, shadow_mode: %t, quota_mode: %t\n", name, l.Shown.Unit,
			l.Shown.RequestsPerUnit, l.Shadow, l.Quota)
	}
	return n.below.appendText(dst, name)
}
