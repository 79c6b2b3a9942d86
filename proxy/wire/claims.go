package wire

import (
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"
)

// A claimsWarning warns about claims dropped from a private address, which is probably a
// proxy that TRUSTED_PROXIES should list.
//
// Safe for concurrent use by note; warn is for one goroutine.
type claimsWarning struct {
	from atomic.Pointer[netip.Addr] // such an address since the last warning, or nil
	next time.Time                  // time from which the next warning is allowed
}

// warnEvery is the least time between two warnings.
const warnEvery = time.Hour

func (d *claimsWarning) note(from netip.Addr) {
	if (from.IsPrivate() || from.IsLoopback()) && d.from.Load() == nil {
		kept := from // a copy: the address of from would be allocated for every request
		d.from.Store(&kept)
	}
}

// warn logs what was noted since the last call, at most once in warnEvery.
func (d *claimsWarning) warn(now time.Time, log *slog.Logger) {
	from := d.from.Swap(nil)
	if from == nil || now.Before(d.next) {
		return
	}
	d.next = now.Add(warnEvery)
	log.Warn("X-Forwarded-For or similar fields from a private address were dropped: if it is a proxy, set TRUSTED_PROXIES", "address", *from)
}
