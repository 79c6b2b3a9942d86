package rls

import (
	"maps"
	"slices"
	"strings"
	"time"

	"weir/internal/data/protowire"
)

// AppendProto appends a response in protobuf's binary form.
func AppendProto(dst []byte, r *Response) []byte {
	dst = protowire.AppendNumber(dst, 1, uint64(r.OverallCode))
	for i := range r.Statuses {
		dst = protowire.AppendMessage(dst, 2, &r.Statuses[i], appendStatusProto)
	}
	for i := range r.Headers {
		dst = protowire.AppendMessage(dst, 3, &r.Headers[i], appendHeaderProto)
	}
	if len(r.RawBody) > 0 {
		dst = protowire.AppendBytes(dst, 5, r.RawBody)
	}
	if r.Metadata != nil {
		dst = protowire.AppendMessage(dst, 6, r.Metadata, AppendStructProto)
	}
	return dst
}

func appendStatusProto(dst []byte, s *Status) []byte {
	dst = protowire.AppendNumber(dst, 1, uint64(s.Code))
	if s.Limit.Given {
		dst = protowire.AppendMessage(dst, 2, &s.Limit, appendLimitProto)
	}
	dst = protowire.AppendNumber(dst, 3, uint64(s.Remaining))
	if s.UntilReset != 0 {
		dst = protowire.AppendMessage(dst, 4, uint64(s.UntilReset/time.Second), func(dst []byte, seconds uint64) []byte {
			return protowire.AppendNumber(dst, 1, seconds)
		})
	}
	return dst
}

func appendLimitProto(dst []byte, l *Limit) []byte {
	dst = protowire.AppendNumber(dst, 1, uint64(l.RequestsPerUnit))
	dst = protowire.AppendNumber(dst, 2, uint64(l.Unit))
	return protowire.AppendText(dst, 3, l.Name)
}

func appendHeaderProto(dst []byte, h *Header) []byte {
	return protowire.AppendText(protowire.AppendText(dst, 1, h.Key), 2, h.Value)
}

// AppendStructProto appends the content of a google.protobuf.Struct in protobuf's binary form: a map, whose elements
// are messages with key and value. Names must be valid UTF-8.
func AppendStructProto(dst []byte, s Struct) []byte {
	for _, name := range slices.Sorted(maps.Keys(s)) {
		dst = protowire.AppendMessage(dst, 1, name, func(dst []byte, name string) []byte {
			return protowire.AppendMessage(protowire.AppendText(dst, 1, name), 2, s[name], appendValueProto)
		})
	}
	return dst
}

// appendValueProto appends a google.protobuf.Value. Its only field, which determines its kind, is written even if it is
// zero.
func appendValueProto(dst []byte, v any) []byte {
	switch v := v.(type) {
	case bool:
		n := uint64(0)
		if v {
			n = 1
		}
		return protowire.AppendVarint(dst, 4, n)
	case float64:
		return protowire.AppendDouble(dst, 2, v)
	case string:
		return protowire.AppendBytes(dst, 3, strings.ToValidUTF8(v, "\uFFFD"))
	case []any:
		return protowire.AppendMessage(dst, 6, v, func(dst []byte, list []any) []byte {
			for _, one := range list {
				dst = protowire.AppendMessage(dst, 1, one, appendValueProto)
			}
			return dst
		})
	case Struct:
		return protowire.AppendMessage(dst, 5, v, AppendStructProto)
	}
	return protowire.AppendVarint(dst, 1, 0) // null
}
