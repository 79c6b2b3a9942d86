package accesslog

import (
	"net/netip"
	"strconv"
	"time"
	"unicode/utf8"
)

// A Format is the format of lines.
type Format uint8

const (
	JSON     Format = iota // one object per line
	Combined               // the combined log format of Apache and nginx
)

// String returns the word used in settings.
func (f Format) String() string { return [...]string{"json", "combined"}[f] }

// An Entry is one request and its outcome. The slices are borrowed and may have any bytes that
// clients send.
type Entry struct {
	At         time.Time // end of the exchange
	Client     netip.Addr
	Method     []byte
	HTTP2      bool // it came by HTTP/2, not HTTP/1.1
	Host       []byte
	Target     []byte // request target with the query
	Status     int    // 499: the client left before the answer
	Bytes      int64  // size of the answer's body
	Duration   time.Duration
	TargetTime time.Duration // from sending the request to the complete answer; negative: it was not sent
	Upstream   string        // address of the target; empty: none was chosen
	Rule       string        // rule that decided
	Key        []byte        // key that refused, in the form for people
	Decision   []byte        // decision id
	RequestID  []byte
	Reason     string // why it was refused or failed
	Referer    []byte
	UserAgent  []byte
}

// Append appends the entry as one line.
func (f Format) Append(dst []byte, e *Entry) []byte {
	if f == Combined {
		return appendCombined(dst, e)
	}
	dst = append(dst, `{"time":"`...)
	dst = e.At.UTC().AppendFormat(dst, "2006-01-02T15:04:05.000Z")
	dst = append(dst, `","client":"`...)
	dst = appendAddr(dst, e.Client)
	dst = append(dst, '"')
	dst = appendText(dst, `,"method":"`, e.Method)
	if e.HTTP2 {
		dst = append(dst, `,"protocol":"HTTP/2.0"`...)
	}
	dst = appendText(dst, `,"host":"`, e.Host)
	dst = appendText(dst, `,"path":"`, e.Target)
	dst = append(dst, `,"status":`...)
	dst = strconv.AppendInt(dst, int64(e.Status), 10)
	dst = append(dst, `,"bytes":`...)
	dst = strconv.AppendInt(dst, e.Bytes, 10)
	dst = append(dst, `,"duration":`...)
	dst = appendSeconds(dst, e.Duration)
	if e.TargetTime >= 0 {
		dst = append(dst, `,"targetTime":`...)
		dst = appendSeconds(dst, e.TargetTime)
	}
	dst = appendText(dst, `,"target":"`, e.Upstream)
	dst = appendText(dst, `,"rule":"`, e.Rule)
	dst = appendText(dst, `,"key":"`, e.Key)
	dst = appendText(dst, `,"decision":"`, e.Decision)
	dst = appendText(dst, `,"requestId":"`, e.RequestID)
	dst = appendText(dst, `,"reason":"`, e.Reason)
	dst = appendText(dst, `,"referer":"`, e.Referer)
	dst = appendText(dst, `,"userAgent":"`, e.UserAgent)
	return append(dst, "}\n"...)
}

// appendCombined appends the combined log format:
//
//	192.0.2.7 - - [19/Jan/2026:16:30:00 +0000] "GET /a?b=c HTTP/1.1" 200 2 "-" "curl/8"
func appendCombined(dst []byte, e *Entry) []byte {
	dst = appendAddr(dst, e.Client)
	dst = append(dst, " - - ["...)
	dst = e.At.UTC().AppendFormat(dst, "02/Jan/2006:15:04:05 -0700")
	dst = append(dst, `] "`...)
	if len(e.Method) > 0 {
		dst = appendHex(dst, e.Method)
		dst = append(dst, ' ')
		dst = appendHex(dst, e.Target)
		if e.HTTP2 {
			dst = append(dst, " HTTP/2.0"...)
		} else {
			dst = append(dst, " HTTP/1.1"...)
		}
	} else {
		dst = append(dst, '-')
	}
	dst = append(dst, `" `...)
	dst = strconv.AppendInt(dst, int64(e.Status), 10)
	dst = append(dst, ' ')
	dst = strconv.AppendInt(dst, e.Bytes, 10)
	for _, text := range [...][]byte{e.Referer, e.UserAgent} {
		dst = append(dst, ` "`...)
		if len(text) == 0 {
			dst = append(dst, '-')
		}
		dst = append(appendHex(dst, text), '"')
	}
	return append(dst, '\n')
}

// appendAddr appends an address, or - for none.
func appendAddr(dst []byte, a netip.Addr) []byte {
	if !a.IsValid() {
		return append(dst, '-')
	}
	return a.AppendTo(dst)
}

// appendSeconds appends a duration in seconds, with microseconds.
func appendSeconds(dst []byte, d time.Duration) []byte {
	return strconv.AppendFloat(dst, float64(d.Microseconds())/1e6, 'f', -1, 64)
}

const hexDigits = "0123456789abcdef"

// appendHex appends text for a quoted string: bytes that are not printable ASCII as \x and two
// digits, as nginx does.
func appendHex(dst, text []byte) []byte {
	for _, c := range text {
		if c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			dst = append(dst, '\\', 'x', hexDigits[c>>4], hexDigits[c&15])
			continue
		}
		dst = append(dst, c)
	}
	return dst
}

// appendText appends a member of a JSON object, unless the text is empty; name includes the
// opening quote of the value. Invalid UTF-8 becomes U+FFFD.
func appendText[T ~string | ~[]byte](dst []byte, name string, text T) []byte {
	if len(text) == 0 {
		return dst
	}
	dst = append(dst, name...)
	for i := 0; i < len(text); {
		c := text[i]
		if c < utf8.RuneSelf {
			dst = appendASCII(dst, c)
			i++
			continue
		}
		var window [utf8.UTFMax]byte
		r, n := utf8.DecodeRune(window[:copy(window[:], text[i:min(len(text), i+utf8.UTFMax)])])
		switch {
		case r == utf8.RuneError && n <= 1:
			dst = append(dst, `\ufffd`...)
		case r < 0xa0 || r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x2069:
			// terminal controls, line ends for some readers, or changes of direction
			dst = append(dst, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
		default:
			dst = utf8.AppendRune(dst, r)
		}
		i += n
	}
	return append(dst, '"')
}

// appendASCII appends one character of a JSON string.
func appendASCII(dst []byte, c byte) []byte {
	switch {
	case c == '"' || c == '\\':
		return append(dst, '\\', c)
	case c < ' ' || c == 0x7f:
		return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
	}
	return append(dst, c)
}
