package wire

import (
	"cmp"
	mathrand "math/rand/v2"
	"net/http"
	"net/netip"
	"time"

	"weir/internal/http1"
	"weir/internal/metric"
	"weir/proxy/accesslog"
	"weir/proxy/exchange"
	"weir/proxy/keys"
)

// Access is what the access log has.
type Access struct {
	Writer *accesslog.Writer // nil: there is no log
	Format accesslog.Format
	// Refused: only requests that were refused or failed.
	Refused bool
	// Sample is the share of the others that is written, from 0 to 1.
	Sample float64
}

// register adds the log's metric to set.
func (a *Access) register(set *metric.Set) {
	if a.Writer != nil {
		set.Counter("ratelimiter_access_log_dropped_total", "lines of the access log that were lost: there was no room, or they could not be written", a.Writer.Dropped)
	}
}

// noticedMax bounds each text that is kept of a request for the access log, in bytes.
const noticedMax = 2048

// noticeKeptMax bounds the memory of a notice that is kept for the next, in bytes.
const noticeKeptMax = 1024

// A notice is what the access log keeps of a request whose head goes.
type notice struct {
	client netip.Addr
	gaveUp string // the address of the target that was given up last
	text   []byte
	ends   [noticeParts]int // of its parts, in text
}

// The parts of a notice.
const (
	noticeMethod = iota
	noticeTarget
	noticeHost
	noticeReferer
	noticeAgent
	noticeParts
)

// keep takes a request's parts over.
func (n *notice) keep(h *http1.Head, client netip.Addr) {
	n.client = client
	referer, _ := h.Field("Referer")
	agent, _ := h.Value(http1.FieldUserAgent)
	n.text = n.text[:0]
	for i, part := range [noticeParts][]byte{h.MethodText, h.Target, h.Host, referer, agent} {
		n.text = append(n.text, part[:min(len(part), noticedMax)]...)
		n.ends[i] = len(n.text)
	}
}

// part is one of the parts; empty when no head was read.
func (n *notice) part(i int) []byte {
	start := 0
	if i > 0 {
		start = n.ends[i-1]
	}
	return n.text[start:n.ends[i]]
}

// forget empties the notice. Of a large one no memory stays with a client that may ask
// for nothing more.
func (n *notice) forget() {
	if cap(n.text) > noticeKeptMax {
		n.text = nil
	}
	*n = notice{text: n.text[:0]}
}

// An accessSide is the access log on one loop.
//
// Owned by its loop.
type accessSide struct {
	*Access
	ring  *accesslog.Ring
	entry accesslog.Entry
	line  []byte
	key   []byte
}

// wrote puts the line about a request that is over. The target is still known.
func (c *client) wrote(now time.Time, o *exchange.Outcome) {
	a := c.side.access
	if a == nil || o.Own {
		return
	}
	reason := reasonOf(o)
	if reason == "" && (a.Refused || a.Sample < 1 && mathrand.Float64() >= a.Sample) {
		c.notice.forget()
		return
	}
	n := &c.notice
	if !n.client.IsValid() { // no head was read
		n.client = c.s.Remote
	}
	a.entry = accesslog.Entry{At: now, Client: n.client, Method: n.part(noticeMethod), Target: n.part(noticeTarget), Host: n.part(noticeHost),
		Referer: n.part(noticeReferer), UserAgent: n.part(noticeAgent),
		Status: o.Status, Bytes: o.Bytes, TargetTime: -1, Rule: o.Rule, Decision: o.ID, RequestID: o.RequestID, Reason: reason}
	e := &a.entry
	e.Upstream = n.gaveUp
	if !o.Began.IsZero() {
		e.Duration = now.Sub(o.Began)
	}
	if c.at != nil {
		e.Upstream = c.at.Value.spec.Addr
	}
	if !o.Sent.IsZero() {
		e.TargetTime = now.Sub(o.Sent)
	}
	if o.Status == 0 {
		e.Status = cmp.Or(o.Begun, 499) // as nginx has it
	}
	if len(o.Key) > 0 {
		a.key = keys.AppendShown(a.key[:0], o.Key)
		e.Key = a.key
	}
	a.line = a.Format.Append(a.line[:0], e)
	a.ring.Put(a.line)
	n.forget()
}

// reasonOf is why a request was refused or failed; empty: it was answered well.
func reasonOf(o *exchange.Outcome) string {
	switch {
	case o.Fault != exchange.FaultNone:
		return o.Fault.String()
	case o.Status == 0:
		return "client_left"
	case o.Decision == exchange.Rejected && len(o.ID) > 0:
		return "limit"
	case o.Decision == exchange.Rejected && o.Status == http.StatusBadRequest:
		return "key_missing"
	case o.Decision == exchange.Rejected && o.Status == http.StatusServiceUnavailable:
		return "store_unavailable"
	case o.Relayed && o.Status >= 500:
		return "target_error"
	case !o.Relayed && o.Status >= 500:
		return "proxy_error"
	case !o.Relayed && o.Status >= 400:
		return "bad_request"
	}
	return ""
}
