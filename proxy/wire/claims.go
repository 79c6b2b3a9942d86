package wire

import (
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"
)

// A peerWarning warns about a peer, at most once in an interval.
//
// Safe for concurrent use by note; warn is for one goroutine.
type peerWarning struct {
	from atomic.Pointer[netip.Addr] // such a peer since the last warning, or nil
	next time.Time                  // time from which the next warning is allowed
}

func (p *peerWarning) note(from netip.Addr) {
	if p.from.Load() == nil {
		kept := from // a copy: the address of from would be allocated for every request
		p.from.Store(&kept)
	}
}

// warn logs what was noted since the last call.
func (p *peerWarning) warn(now time.Time, log *slog.Logger, interval time.Duration, text string) {
	from := p.from.Swap(nil)
	if from == nil || now.Before(p.next) {
		return
	}
	p.next = now.Add(interval)
	log.Warn(text, "address", *from)
}

// A claimsWarning warns about claims dropped from a private address, which is probably a
// proxy that TRUSTED_PROXIES should list.
type claimsWarning struct{ peerWarning }

func (d *claimsWarning) note(from netip.Addr) {
	if from.IsPrivate() || from.IsLoopback() {
		d.peerWarning.note(from)
	}
}

func (d *claimsWarning) warn(now time.Time, log *slog.Logger) {
	d.peerWarning.warn(now, log, time.Hour,
		"X-Forwarded-For or similar fields from a private address were dropped: if it is a proxy, set TRUSTED_PROXIES")
}

// warnDiffering warns about trusted proxies that contradict themselves.
func warnDiffering(now time.Time, log *slog.Logger, p *peerWarning) {
	p.warn(now, log, time.Minute,
		"X-Forwarded-For and Forwarded of a trusted proxy name different clients; X-Forwarded-For counts")
}
