package http1

// A FieldID is a known field name.
type FieldID uint8

// The known names. Fields with names from FieldConnection to FieldHost are never forwarded: those
// of RFC 9110 7.6.1, similar obsolete ones, and those that a forwarder writes itself.
const (
	FieldOther FieldID = iota

	FieldConnection
	FieldKeepAlive
	FieldProxyConnection
	FieldProxyAuthenticate
	FieldProxyAuthorization
	FieldTE
	FieldTrailer
	FieldTransferEncoding
	FieldUpgrade
	FieldHTTP2Settings
	FieldContentLength
	FieldHost

	FieldExpect
	FieldAccept
	FieldAuthorization
	FieldCDNLoop
	FieldContentEncoding
	FieldContentType
	FieldCookie
	FieldDate
	FieldIdempotencyKey
	FieldLocation
	FieldMaxForwards
	FieldOrigin
	FieldRetryAfter
	FieldServer
	FieldSetCookie
	FieldUserAgent
	FieldVia
	FieldWWWAuthenticate
	FieldXForwardedFor
	FieldXForwardedHost
	FieldXForwardedProto
	FieldXRequestID

	fieldCount
	lastHopField  = FieldHost
	lastFactField = FieldExpect // names after it do not matter to a Reader
)

var fieldNames = [fieldCount]string{
	FieldConnection:         "connection",
	FieldKeepAlive:          "keep-alive",
	FieldProxyConnection:    "proxy-connection",
	FieldProxyAuthenticate:  "proxy-authenticate",
	FieldProxyAuthorization: "proxy-authorization",
	FieldTE:                 "te",
	FieldTrailer:            "trailer",
	FieldTransferEncoding:   "transfer-encoding",
	FieldUpgrade:            "upgrade",
	FieldHTTP2Settings:      "http2-settings",
	FieldContentLength:      "content-length",
	FieldHost:               "host",
	FieldExpect:             "expect",
	FieldAccept:             "accept",
	FieldAuthorization:      "authorization",
	FieldCDNLoop:            "cdn-loop",
	FieldContentEncoding:    "content-encoding",
	FieldContentType:        "content-type",
	FieldCookie:             "cookie",
	FieldDate:               "date",
	FieldIdempotencyKey:     "idempotency-key",
	FieldLocation:           "location",
	FieldMaxForwards:        "max-forwards",
	FieldOrigin:             "origin",
	FieldRetryAfter:         "retry-after",
	FieldServer:             "server",
	FieldSetCookie:          "set-cookie",
	FieldUserAgent:          "user-agent",
	FieldVia:                "via",
	FieldWWWAuthenticate:    "www-authenticate",
	FieldXForwardedFor:      "x-forwarded-for",
	FieldXForwardedHost:     "x-forwarded-host",
	FieldXForwardedProto:    "x-forwarded-proto",
	FieldXRequestID:         "x-request-id",
}

// String returns the name in lower case, or "" for FieldOther.
func (id FieldID) String() string {
	if id < fieldCount {
		return fieldNames[id]
	}
	return ""
}

// Hop reports whether fields with that name are never forwarded, because they belong to one
// connection or the forwarder writes them itself.
func (id FieldID) Hop() bool { return id-1 < lastHopField }

// usualNames are the names as most senders write them, each word with a capital; others use lower case.
// These are compared first, which avoids case folding.
var usualNames = capitalised()

func capitalised() (names [fieldCount]string) {
	for id, name := range fieldNames {
		b := []byte(name)
		for i := range b {
			if i == 0 || b[i-1] == '-' {
				b[i] -= 'a' - 'A'
			}
		}
		names[id] = string(b)
	}
	return names
}

// Names are found by length and first letter, a pair that is unique for each name, and then
// compared once.
const (
	nameBytesMax = 31 // longer names are unknown
	fieldSlots   = (nameBytesMax + 1) << 5
)

var fieldsBySlot = fieldSlotTable()

func fieldSlotTable() (t [fieldSlots]FieldID) {
	for id, name := range fieldNames {
		if name != "" {
			t[fieldSlot(len(name), name[0])] = FieldID(id)
		}
	}
	return t
}

func fieldSlot(n int, first byte) int { return n<<5 | int(first&0x1f) }

// fieldIDOf returns the ID of a name, and the union of the classes of its bytes.
func fieldIDOf(name []byte) (id FieldID, class uint8) {
	if len(name) <= nameBytesMax {
		id = fieldsBySlot[fieldSlot(len(name), name[0])]
		if string(name) == usualNames[id] {
			return id, classWord
		}
	}
	return foldedFieldID(name, id)
}

// foldedFieldID is fieldIDOf for a name that is not spelled as usual, and may have that ID.
func foldedFieldID(name []byte, maybe FieldID) (id FieldID, class uint8) {
	if string(name) == fieldNames[maybe] {
		return maybe, classWord
	}
	for _, c := range name {
		class |= tokenClass[c]
	}
	if class >= classEnd || !foldEqual(name, fieldNames[maybe]) {
		maybe = FieldOther
	}
	return maybe, class
}

// lowerFieldIDOf is fieldIDOf for names that must be in lower case: with capitals, or empty, their
// class is classEnd.
func lowerFieldIDOf(name []byte) (id FieldID, class uint8) {
	if len(name) == 0 {
		return FieldOther, classEnd
	}
	if len(name) <= nameBytesMax {
		id = fieldsBySlot[fieldSlot(len(name), name[0])]
		if string(name) == fieldNames[id] {
			return id, classWord
		}
	}
	for _, c := range name {
		if class |= tokenClass[c]; c >= 'A' && c <= 'Z' {
			class = classEnd
		}
	}
	return FieldOther, class
}
