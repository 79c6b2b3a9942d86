package asks

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"weir/proxy/limit"
	"weir/proxy/store"
)

const (
	// Version is the version of the format. Another version is answered 409.
	Version = 1
	// ContentType is the media type of questions and answers.
	ContentType = "application/vnd.weir.asks"
	// BatchBytesMax bounds a question.
	BatchBytesMax = 1 << 20
	// AnswerBytesMax bounds an answer: a master does not decide asks whose states do not fit.
	// The largest states of one ask fit.
	AnswerBytesMax = 16 << 20
	// RequestsMax bounds the requests of one ask.
	RequestsMax = 1 << 24
	// RuleBytesMax bounds the id of a rule. It also bounds the numbers of asks and refunds,
	// of which BatchBytesMax permits fewer.
	RuleBytesMax = 1<<16 - 1
	// debtMark is added to the algorithm of a counter with debt.
	debtMark = 1 << 7
	// spanMax bounds durations in microseconds, so that they fit into a time.Duration.
	spanMax = math.MaxInt64 / int64(time.Microsecond)
)

// A MessageError is an error in a message.
type MessageError struct {
	Offset  int
	Problem string
}

// Error returns the offset in bytes and the problem.
func (e *MessageError) Error() string { return fmt.Sprintf("byte %d: %s", e.Offset, e.Problem) }

// A VersionError is the version of a message that is not Version.
type VersionError byte

// Error returns both versions.
func (v VersionError) Error() string {
	return fmt.Sprintf("the message has version %d, and this program speaks version %d", byte(v), Version)
}

// AppendBatch appends a batch.
func AppendBatch(dst []byte, refunds []store.Refund, groups []*store.Group) []byte {
	dst = append(dst, Version)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(refunds)))
	for i := range refunds {
		dst = appendCounter(dst, &refunds[i].Counter)
		dst = binary.LittleEndian.AppendUint64(dst, uint64(refunds[i].Instant))
	}
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(groups)))
	for _, g := range groups {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(g.N))
		at := len(dst)
		dst = append(dst, 0)
		for i := range g.Counters {
			if g.Counters[i].Limit.Algorithm() != limit.Off {
				dst = appendCounter(dst, &g.Counters[i])
				dst[at]++
			}
		}
	}
	return dst
}

func appendCounter(dst []byte, c *store.Counter) []byte {
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(c.Rule)))
	dst = append(dst, c.Rule...)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(c.Key)))
	dst = append(dst, c.Key...)
	n := c.Limit.Params()
	algorithm := byte(n.Algorithm)
	if c.Debt > 0 {
		algorithm |= debtMark
	}
	dst = append(dst, algorithm)
	for _, number := range [...]int64{n.Permits, n.Burst, n.WindowOrRate, n.Overshoot, n.Grace.Microseconds(), c.Cost,
		c.Reserve, c.MaxDelay.Microseconds()} {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(number))
	}
	if c.Debt > 0 {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(c.Debt))
	}
	return dst
}

// A Batch is a batch as it was parsed. It is reused.
//
// Owned by its loop.
type Batch struct {
	Refunds []store.Refund
	Asks    []store.Ask // Traced

	counters []store.Counter
	limits   []limit.Limit
	ends     []int // of the counters of each ask
}

// Parse parses the text of AppendBatch. Keys are borrowed from b. The error is a *MessageError or a
// VersionError.
func (q *Batch) Parse(b []byte) error {
	q.Refunds, q.Asks, q.counters, q.limits, q.ends = q.Refunds[:0], q.Asks[:0], q.counters[:0], q.limits[:0], q.ends[:0]
	r := reader{b: b}
	if v := r.u8(); r.fault == nil && v != Version {
		return VersionError(v)
	}
	for range r.u16() {
		q.counter(&r)
		instant := r.number()
		if r.fault != nil {
			return r.fault
		}
		q.Refunds = append(q.Refunds, store.Refund{Instant: instant})
	}
	for range r.u16() {
		q.ask(&r)
		if r.fault != nil {
			return r.fault
		}
	}
	r.end()
	if r.fault != nil {
		return r.fault
	}
	q.join()
	return nil
}

func (q *Batch) ask(r *reader) {
	at := r.at
	n := r.u32()
	if n < 1 || n > RequestsMax {
		r.fail(at, fmt.Sprintf("must be 1 to %d requests, is %d", RequestsMax, n))
	}
	at = r.at
	count := int(r.u8())
	if count < 1 || count > store.CountersMax {
		r.fail(at, fmt.Sprintf("must be 1 to %d counters, is %d", store.CountersMax, count))
		return
	}
	first := len(q.counters)
	for range count {
		at = r.at
		q.counter(r)
		if r.fault != nil {
			return
		}
		last := &q.counters[len(q.counters)-1]
		for _, c := range q.counters[first : len(q.counters)-1] {
			if c.Rule == last.Rule && bytes.Equal(c.Key, last.Key) {
				r.fail(at, "rule and key are those of another counter of the same ask")
			}
		}
	}
	q.Asks = append(q.Asks, store.Ask{N: n, WantsPrior: true})
	q.ends = append(q.ends, len(q.counters))
}

func (q *Batch) counter(r *reader) {
	c := store.Counter{Rule: string(r.bytes(r.u16())), Key: r.bytes(r.u32())}
	at := r.at
	algorithm := r.u8()
	n := limit.WireParams{Algorithm: limit.Algorithm(algorithm &^ debtMark)}
	n.Permits, n.Burst, n.WindowOrRate, n.Overshoot = r.number(), r.number(), r.number(), r.number()
	n.Grace = r.span()
	c.Cost, c.Reserve = r.number(), r.number()
	c.MaxDelay = r.span()
	debtAt := r.at
	if algorithm&debtMark != 0 {
		c.Debt = r.number()
	}
	if r.fault != nil {
		return
	}
	l, err := n.Limit()
	switch {
	case err != nil:
		r.fail(at, err.Error())
	case n.Algorithm == limit.Off:
		r.fail(at, "a limit that is off is not sent")
	case algorithm&debtMark != 0 && (c.Debt < l.Debt(0) || c.Debt > l.DebtMax()):
		r.fail(debtAt, fmt.Sprintf("must be a debt of %d to %d", l.Debt(0), l.DebtMax()))
	}
	q.limits = append(q.limits, l)
	q.counters = append(q.counters, c)
}

// join makes asks and refunds refer to counters and limits, whose memory no longer moves.
func (q *Batch) join() {
	for i := range q.counters {
		q.counters[i].Limit = &q.limits[i]
	}
	for i := range q.Refunds {
		q.Refunds[i].Counter = q.counters[i]
	}
	from := len(q.Refunds)
	for i, end := range q.ends {
		q.Asks[i].Counters = q.counters[from:end:end]
		from = end
	}
}
