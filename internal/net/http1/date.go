package http1

import "time"

// A Date is the Date field line, which is written once a second.
//
// Owned by its loop.
type Date struct {
	second int64
	line   []byte
}

// At returns the line for now (RFC 9110 6.6.1), valid until the next call, and whether it has
// changed.
func (d *Date) At(now time.Time) (line []byte, renewed bool) {
	if second := now.Unix(); second != d.second || d.line == nil {
		d.second, renewed = second, true
		d.line = now.UTC().AppendFormat(append(d.line[:0], "Date: "...), "Mon, 02 Jan 2006 15:04:05 GMT\r\n")
	}
	return d.line, renewed
}
