package service

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/internal/net/http1"
)

// An AccessGuard decides who may use the guarded endpoints of OwnEndpoints.
//
// With a token, requests need Authorization: Bearer and that token (RFC 6750). Without
// one they must be local: made on this machine by root or by the program's user, and not
// forwarded by a reverse proxy or made by a browser for a foreign page. Reverse proxies
// that add no fields, and TCP proxies, are recognised by the user that they run as.
//
// Safe for concurrent use: the exported fields are set before the first request, mu
// guards the rest.
type AccessGuard struct {
	Token string // ADMIN_TOKEN; empty: local requests are allowed
	Open  bool   // ADMIN_OPEN: all requests are allowed
	// Fronted says that a reverse proxy on this machine forwards requests, so no request
	// counts as local.
	Fronted bool
	Log     *slog.Logger // for refusals; nil: none

	mu      sync.Mutex
	refused int  // since the last log line
	quiet   bool // that line is less than refusalPause old
	latest  []any
}

// refusalPause is the least time between two log lines about refused requests.
const refusalPause = time.Second

// remedy says what an operator can do about a refusal.
func (g *AccessGuard) remedy() string {
	if g.Token != "" {
		return "send the ADMIN_TOKEN that is set, or set ADMIN_OPEN=true"
	}
	return "set ADMIN_TOKEN, or ADMIN_OPEN=true"
}

// protect returns h for requests that may use the endpoint; others get 403.
func (g *AccessGuard) protect(pattern string, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		why := g.refusal(r)
		if why == "" {
			h(w, r)
			return
		}
		g.logRefused(pattern, r.RemoteAddr, why)
		WriteError(w, http.StatusForbidden, errors.New(pattern+" is refused: the request "+why+"; operators: "+g.remedy()))
	}
}

// refusal says why a request may not use a guarded endpoint. It is empty if it may.
func (g *AccessGuard) refusal(r *http.Request) string {
	switch {
	case g.Open:
		return ""
	case g.Token == "":
		return g.foreign(r)
	case !http1.HasBearerToken(r.Header.Get("Authorization"), g.Token):
		return "needs Authorization: Bearer with the program's ADMIN_TOKEN"
	}
	return ""
}

// foreign says why a request is not local. It is empty if it is local. The owner of the
// connection is checked last, because that asks the system.
func (g *AccessGuard) foreign(r *http.Request) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	switch {
	case err != nil || !peer.Addr().Unmap().IsLoopback():
		return "does not come from a loopback address"
	case g.Fronted:
		return "may come through a proxy on this machine, which TRUSTED_PROXIES allows"
	case !http1.IsLoopback(r.Host):
		return fmt.Sprintf("asks for the host %q, which is not a loopback name", r.Host)
	}
	if why := passedOn(r); why != "" {
		return why
	}
	here, err := netip.ParseAddrPort(fmt.Sprint(r.Context().Value(http.LocalAddrContextKey))) // a net.Addr
	if err != nil {
		return "has no local address"
	}
	owner, err := socketOwner(peer, here)
	switch {
	case err != nil:
		return "comes from a socket whose owner is unknown: " + err.Error()
	case owner != 0 && !SameUser(owner, uint32(os.Geteuid())):
		return fmt.Sprintf("comes from a program of user %d, which is neither root nor the user of this program", owner)
	}
	return ""
}

// passedOn says which field shows that a request was forwarded by a proxy, or made by a
// browser for a page of another origin.
func passedOn(r *http.Request) string {
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		switch {
		case name == "Forwarded", name == "Via", name == "X-Real-Ip", strings.HasPrefix(name, "X-Forwarded-"):
			return "was forwarded by a proxy: it has the field " + name
		}
		for _, v := range r.Header[name] {
			switch {
			case name == "Sec-Fetch-Site" && v != "none" && v != "same-origin",
				name == "Origin" && !strings.EqualFold(v, "http://"+r.Host) && !strings.EqualFold(v, "https://"+r.Host):
				return fmt.Sprintf("was made by a page of another origin: it has %s %q", name, v)
			}
		}
	}
	return ""
}

// logRefused logs refused requests: the first at once, then their number, at most one line per
// refusalPause.
func (g *AccessGuard) logRefused(pattern, from, why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refused++
	g.latest = []any{"latest", pattern, "from", from, "reason", why}
	if !g.quiet {
		g.report()
	}
}

// report writes the line, and schedules the next. The caller holds g.mu.
func (g *AccessGuard) report() {
	if g.quiet = g.refused > 0; !g.quiet {
		return
	}
	if g.Log != nil {
		g.Log.Warn("Requests refused: "+g.remedy(), append([]any{"count", g.refused}, g.latest...)...)
	}
	g.refused = 0
	time.AfterFunc(refusalPause, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.report()
	})
}
