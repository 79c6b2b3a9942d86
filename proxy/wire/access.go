package wire

import (
	"cmp"
	mathrand "math/rand/v2"
	"net/http"
	"net/netip"
	"time"

	"weir/internal/net/http1"
	"weir/internal/program/metric"
	"weir/proxy/http/exchange"
	"weir/proxy/rules/keys"
	"weir/proxy/wire/accesslog"
)

// AccessLog configures the access log.
type AccessLog struct {
	Writer *accesslog.Writer // nil means no access log
	Format accesslog.Format
	// Refused limits the log to requests that were refused or failed.
	Refused bool
	// Sample is the share of all other requests that is logged, from 0 to 1.
	Sample float64
}

// register adds the log's metric to set.
func (a *AccessLog) register(set *metric.Set) {
	if a.Writer != nil {
		set.Counter("ratelimiter_access_log_dropped_total",
			"access log lines lost because the buffer was full or the write failed", a.Writer.Dropped)
	}
}

// noticedMax bounds each text that a notice keeps, in bytes.
const noticedMax = 2048

// noticeKeptMax bounds the memory that an emptied notice keeps for the next request, in
// bytes.
const noticeKeptMax = 1024

// A notice keeps what the access log needs of a request after its head has been dropped.
type notice struct {
	client netip.Addr
	gaveUp string // address of the target that was given up last
	text   []byte
	ends   [noticeParts + 1]int // part i of text is from ends[i] to ends[i+1]
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

// keep copies the parts of a request.
func (n *notice) keep(h *http1.Head, client netip.Addr) {
	n.client = client
	referer, _ := h.Field("Referer")
	agent, _ := h.Value(http1.FieldUserAgent)
	n.text = n.text[:0]
	for i, part := range [noticeParts][]byte{h.MethodText, h.Target, h.Host, referer, agent} {
		n.text = append(n.text, part[:min(len(part), noticedMax)]...)
		n.ends[i+1] = len(n.text)
	}
}

// part returns one of the parts. It is empty if no head was read.
func (n *notice) part(i int) []byte { return n.text[n.ends[i]:n.ends[i+1]] }

// forget empties the notice. It frees a large buffer, since the client may send nothing
// more.
func (n *notice) forget() {
	if cap(n.text) > noticeKeptMax {
		n.text = nil
	}
	*n = notice{text: n.text[:0]}
}

// An accessSide is one loop's side of the access log.
//
// Owned by its loop.
type accessSide struct {
	*AccessLog
	ring  *accesslog.Ring
	entry accesslog.Entry
	line  []byte
	key   []byte
}

// wrote logs a finished request. The target is still known.
func (c *client) wrote(now time.Time, o *exchange.Outcome) {
	a := c.server.access
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
		n.client = c.x.Remote
	}
	a.entry = accesslog.Entry{At: now, Client: n.client, Method: n.part(noticeMethod), Target: n.part(noticeTarget),
		Host: n.part(noticeHost), HTTP2: c.x.HTTP2,
		Referer: n.part(noticeReferer), UserAgent: n.part(noticeAgent),
		Status: o.Status, Bytes: o.Bytes, TargetTime: -1, Rule: o.Rule, Decision: o.ID, RequestID: o.RequestID,
		Reason: reason}
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
		e.Status = cmp.Or(o.Begun, 499) // the status that nginx uses
	}
	if len(o.Key) > 0 {
		a.key = keys.AppendRedacted(a.key[:0], o.Key)
		e.Key = a.key
	}
	a.line = a.Format.Append(a.line[:0], e)
	a.ring.Put(a.line)
	n.forget()
}

// reasonOf returns why a request was refused or failed. It is empty for a good answer.
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
