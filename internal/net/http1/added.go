package http1

import "slices"

// Proxies that a message passes add fields to it. These do not count against HeadBytes and
// Fields, but have bounds of their own, so that a message that one proxy accepts is not refused
// by the next one with the same Limits.
const (
	addedBytesMax  = 4 << 10
	addedFieldsMax = 16
)

// checkSize checks the size of a head of n bytes against bounds of Limits.Bounds. Lines count in the
// form in which a proxy writes them, with one space after the colon, so that writing a head again
// does not make it larger.
func (h *Head) checkSize(n int, headBytesMax int32, headFieldsMax uint16, response bool) fault {
	bytesMax, fieldsMax := int(headBytesMax)-addedBytesMax, int(headFieldsMax)-addedFieldsMax
	if n+len(h.Fields) <= bytesMax && len(h.Fields) <= fieldsMax {
		return noFault // nearly always
	}
	start := len("HTTP/1.1 200 \r\n") + len(h.Reason)
	if !response {
		start = len(h.MethodText) + len(h.Target) + len("  HTTP/1.1\r\n")
		if start > bytesMax {
			return faultTargetTooLong
		}
	}
	size, fields := start+len("\r\n"), 0
	addedSize, added := 0, 0
	for i := range h.Fields {
		f := &h.Fields[i]
		line := len(f.Name) + len(": ") + len(f.Value) + len("\r\n")
		if isAdded(f) {
			addedSize, added = addedSize+line, added+1
			continue
		}
		size, fields = size+line, fields+1
	}
	switch {
	case size+max(0, addedSize-addedBytesMax) > bytesMax:
		return faultHeadTooLarge
	case fields+max(0, added-addedFieldsMax) > fieldsMax:
		return faultTooManyFields
	}
	return noFault
}

// isAdded reports whether proxies add fields with that name. These include Connection and
// Transfer-Encoding, if the next connection needs them.
func isAdded(f *Field) bool {
	switch f.ID {
	case FieldVia, FieldXForwardedFor, FieldXForwardedHost, FieldXForwardedProto, FieldXRequestID, FieldDate,
		FieldConnection, FieldTransferEncoding:
		return true
	}
	return slices.ContainsFunc(addedNames[:], func(name string) bool { return foldEqual(f.Name, name) })
}

// addedNames are further names of such fields, which are only compared in large heads.
var addedNames = [...]string{"cdn-loop", "ratelimit", "ratelimit-policy", "x-ratelimit-limit", "x-ratelimit-remaining",
	"ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"}
