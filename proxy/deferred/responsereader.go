package deferred

import (
	"errors"
	"math"
	"strconv"
	"time"

	"weir/internal/net/http1"
)

// A ResponseReader reads the target's answer to a delivery and keeps the result.
type ResponseReader struct {
	Result
	RetryAfter time.Duration // from Retry-After; 0: there is none
	BytesMax   int           // bytes of the body that are kept

	reader http1.Reader
	head   http1.Head
	unread []byte
}

// NewResponseReader returns a ResponseReader that has read nothing.
func NewResponseReader(bounds *http1.Limits, bytesMax int) ResponseReader {
	return ResponseReader{BytesMax: bytesMax, reader: http1.NewResponseReader(bounds)}
}

// Write reads more of the message.
func (r *ResponseReader) Write(now time.Time, b []byte) {
	r.unread = append(r.unread, b...)
	for at := 0; ; {
		ev, err := r.reader.Next(r.unread[at:], &r.head)
		if at += int(ev.N); err != nil || ev.Kind == http1.NeedMore || ev.Kind == http1.End {
			r.unread = append(r.unread[:0], r.unread[at:]...)
			return
		}
		switch ev.Kind {
		case http1.HeadDone:
			r.keepHead(now)
		case http1.Data:
			r.keepBody(ev.Data)
		}
	}
}

// keepHead keeps the status and the fields of the final answer.
func (r *ResponseReader) keepHead(now time.Time) {
	if r.head.Status < 200 {
		return
	}
	r.Status = r.head.Status
	for i := range r.head.Fields {
		if f := &r.head.Fields[i]; !f.Hop && !f.ID.Hop() {
			r.Head = http1.AppendFieldLine(r.Head, f)
		}
	}
	if value, ok := r.head.Value(http1.FieldRetryAfter); ok {
		r.RetryAfter = RetryAfter(now, string(value))
	}
}

// RetryAfter parses a Retry-After (RFC 9110 section 10.2.3). It returns 0 if it is invalid, and the
// longest duration for what is longer than that.
func RetryAfter(now time.Time, value string) time.Duration {
	seconds, err := strconv.ParseUint(value, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange), err == nil && seconds > uint64(math.MaxInt64/time.Second):
		return math.MaxInt64
	case err == nil:
		return time.Duration(seconds) * time.Second
	}
	return max(0, date(now, value).Sub(now))
}

// date parses a date in one of the three forms of RFC 9110 section 5.6.7. It returns the zero time
// if the date is invalid.
func date(now time.Time, value string) time.Time {
	if at, err := time.Parse("Mon, 02 Jan 2006 15:04:05 GMT", value); err == nil {
		return at
	}
	if at, err := time.Parse(time.ANSIC, value); err == nil { // asctime
		return at
	}
	at, err := time.Parse("Monday, 02-Jan-06 15:04:05 GMT", value) // RFC 850
	if err != nil {
		return time.Time{}
	}
	// Only a year that would be more than 50 years ahead is in the past.
	at = at.AddDate(now.Year()-now.Year()%100-at.Year()+at.Year()%100, 0, 0)
	switch ahead := now.AddDate(50, 0, 0); {
	case at.After(ahead):
		return at.AddDate(-100, 0, 0)
	case !at.AddDate(100, 0, 0).After(ahead):
		return at.AddDate(100, 0, 0)
	}
	return at
}

// keepBody keeps a piece of the body.
func (r *ResponseReader) keepBody(b []byte) {
	r.Bytes += int64(len(b))
	if room := max(0, r.BytesMax-len(r.Body)); len(b) > room {
		b, r.Truncated = b[:room], true
	}
	r.Body = append(r.Body, b...)
}
