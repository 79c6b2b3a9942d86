package delivery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"weir/internal/net/http1"
	"weir/internal/program/service"
	"weir/proxy/deferred"
	"weir/proxy/http/session"
	"weir/proxy/rules/decide"
	"weir/proxy/rules/keys"
	"weir/proxy/rules/rule"
)

// askWithin bounds how long an endpoint waits for the queue.
const askWithin = 2 * time.Second

// RegisterEndpoints adds the endpoints to own:
//
//	GET    /deferred/{id}           the state of a request
//	GET    /deferred/{id}/result    the target's answer
//	DELETE /deferred/{id}           cancels it
//	GET    /config/deferred         lists entries; POST changes many, or pauses a rule
//	POST   /config/deferred/{id}    changes one
//	GET    /config/deferred/page    a page for these three
func (d *Dispatcher) RegisterEndpoints(own *service.Endpoints) {
	own.HandleFunc("GET /deferred/{id}", d.asked(d.status))
	own.HandleFunc("GET /deferred/{id}/result", d.asked(d.result))
	own.HandleFunc("DELETE /deferred/{id}", d.asked(d.cancel))
	own.HandleJSON("GET /config/deferred", d.list)
	own.HandleJSON("POST /config/deferred", d.editMany)
	own.HandleJSON("POST /config/deferred/{id}", d.editOne)
	own.HandleFunc("GET /config/deferred/page", servePage)
}

// A shown is an entry as endpoints show it.
type shown struct {
	ID        string       `json:"id"`
	State     string       `json:"state"`
	Rule      string       `json:"rule"`
	Position  int          `json:"position,omitempty"`
	Accepted  time.Time    `json:"accepted"`
	NotBefore *time.Time   `json:"notBefore,omitempty"`
	Expires   time.Time    `json:"expires"`
	Attempts  int          `json:"attempts"`
	Last      *shownLast   `json:"last,omitempty"`
	Result    *shownResult `json:"result,omitempty"`

	Callback *shownCallback `json:"callback,omitempty"`
}

type shownLast struct {
	At     time.Time `json:"at"`
	Status int       `json:"status,omitempty"`
	Error  string    `json:"error,omitempty"`
}

type shownResult struct {
	Status    int         `json:"status"`
	Fields    [][2]string `json:"fields,omitempty"`
	Bytes     int64       `json:"bytes"`
	Truncated bool        `json:"truncated"`
}

func shownOf(e *deferred.Entry, position int) *shown {
	t := &shown{ID: e.ID.String(), State: e.State.String(), Rule: e.Rule, Position: position, Accepted: e.Accepted,
		Expires: e.Expires, Attempts: e.Attempts}
	if e.State == deferred.Waiting {
		t.NotBefore = &e.Due
	}
	if !e.Last.At.IsZero() {
		t.Last = &shownLast{e.Last.At, e.Last.Status, e.Last.Error}
	}
	if r := e.Result; r != nil && r.Status > 0 {
		t.Result = &shownResult{r.Status, fieldsOf(r.Head), r.Bytes, r.Truncated}
	}
	return t
}

// fieldsOf splits the field lines of a result into names and values. They follow the request
// line, see firstLine, which may look like one of them.
func fieldsOf(head []byte) (fields [][2]string) {
	_, lines, _ := strings.Cut(string(head), "\r\n")
	for line := range strings.SplitSeq(lines, "\r\n") {
		if name, value, ok := strings.Cut(line, ": "); ok {
			fields = append(fields, [2]string{name, value})
		}
	}
	return fields
}

// An answer writes the answer to a request that may see an entry.
type answer func(ctx context.Context, w http.ResponseWriter, e *deferred.Entry, position int)

// asked returns a handler that calls give if the request may see the entry in its path. Otherwise
// it answers as if there were no such entry.
func (d *Dispatcher) asked(give answer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), askWithin)
		defer cancel()
		w.Header().Set("Cache-Control", "no-store")
		misplaced := d.misplaced(r.Host)
		id, err := deferred.ParseID(r.PathValue("id"))
		q := d.opened()
		if q == nil {
			service.WriteError(w, http.StatusServiceUnavailable, unavailable(w))
			return
		}
		var e *deferred.Entry
		position, elsewhere := 0, ""
		if err == nil {
			elsewhere = d.cfg.ProxyURLs.PeerURL(id)
			e, position, err = q.Read(ctx, id)
		} else {
			err = deferred.ErrNotFound
		}
		switch {
		case err == nil && e.Rule != CallbackRule && d.maySee(r, e):
			give(ctx, w, e, position)
		case elsewhere != "" && !misplaced && errors.Is(err, deferred.ErrNotFound):
			w.Header().Set("Location", d.addressAt(elsewhere, r))
			service.WriteError(w, http.StatusTemporaryRedirect, errors.New("another proxy has the request"))
		case err == nil || errors.Is(err, deferred.ErrNotFound):
			service.WriteError(w, http.StatusNotFound, errNone)
		default:
			service.WriteError(w, http.StatusServiceUnavailable, unavailable(w))
		}
	}
}

// misplaced reports whether the host of a request is that of another proxy in DEFER_ADVERTISE. A
// client that is redirected to that proxy could come back to this one.
func (d *Dispatcher) misplaced(host string) bool {
	if !d.cfg.ProxyURLs.IsPeer(host) {
		return false
	}
	if n, ok := d.siteLog.Allow(time.Now(), time.Minute); ok {
		d.cfg.Log.Warn("A client used the URL of another proxy in DEFER_ADVERTISE: this proxy's own must be the first",
			"host", host, "others", n)
	}
	return true
}

// addressAt returns the URL of r at another proxy.
func (d *Dispatcher) addressAt(site string, r *http.Request) string {
	to := site + d.cfg.Path + strings.TrimPrefix(r.URL.Path, "/deferred/")
	if r.URL.RawQuery != "" {
		to += "?" + r.URL.RawQuery
	}
	return to
}

// unavailable sets the status and returns the error for a queue that currently cannot be read.
func unavailable(w http.ResponseWriter) error {
	w.Header().Set("Retry-After", "1")
	return service.WithStatus(http.StatusServiceUnavailable, errors.New("the queue cannot be read now"))
}

// errNone is the error for a request that is not in the queue, or belongs to another client.
var errNone = errors.New("there is no such request, or it is no longer kept")

// maySee reports whether a request comes from the client that an entry belongs to: sent to the
// entry's path, it would be counted under the same key of the same rule.
func (d *Dispatcher) maySee(r *http.Request, e *deferred.Entry) bool {
	if !d.cfg.SameClient || e.LineKey == "" {
		return true
	}
	set := d.cfg.Policy().Rules
	if set == nil {
		return false
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	client := decide.CanonicalAddr(peer.Addr())
	trusted := d.cfg.Trusts(client)
	var h http1.Head
	head := e.Head
	if len(head) == 0 && e.Result != nil {
		head = e.Result.Head
	}
	counts := func(field string) bool { return trusted || !d.cfg.ForwardingFields.Has([]byte(field)) }
	bounds := session.StoredHeadLimits()
	reader := http1.NewRequestReader(&bounds)
	if ev, err := reader.Next(asIfSent(r, head, counts), &h); err != nil || ev.Kind != http1.HeadDone {
		return false
	}
	if trusted {
		client = decide.ForwardedInfoOf(h.Fields, client, d.cfg.Trusts).Client
	}
	var x rule.Scratch
	for _, match := range set.Match((*keys.Request)(&h), client, &x) {
		if match.Rule.ID == e.Rule && string(match.Key) == e.LineKey {
			return true
		}
	}
	return false
}

// asIfSent returns the head of a request to the path of a stored one, with the query of r and
// those of its fields for which counts returns true.
func asIfSent(r *http.Request, head []byte, counts func(field string) bool) []byte {
	method, target := requestLine(head)
	path, _, _ := bytes.Cut(target, []byte("?"))
	b := fmt.Appendf(nil, "%s %s", method, path)
	if r.URL.RawQuery != "" {
		b = append(append(b, '?'), r.URL.RawQuery...)
	}
	b = fmt.Appendf(b, " HTTP/1.1\r\nHost: %s\r\n", r.Host)
	for name, values := range r.Header {
		for _, v := range values {
			if name != "Content-Length" && name != "Transfer-Encoding" && name != "Expect" && counts(name) {
				b = http1.AppendField(b, name, v)
			}
		}
	}
	return http1.AppendHeadEnd(b)
}

// retrySeconds returns the value of Retry-After: when the state may have changed.
func retrySeconds(e *deferred.Entry) string {
	return fmt.Sprint(max(1, decide.Seconds(time.Until(e.Due))))
}

// status answers with the state of a request.
func (d *Dispatcher) status(ctx context.Context, w http.ResponseWriter, e *deferred.Entry, position int) {
	if !e.State.Final() {
		w.Header().Set("Retry-After", retrySeconds(e))
	}
	t := shownOf(e, position)
	t.Callback = d.shownCallbackOf(ctx, e)
	service.WriteJSON(w, http.StatusOK, t)
}

// cancel removes a request from its line.
func (d *Dispatcher) cancel(ctx context.Context, w http.ResponseWriter, e *deferred.Entry, _ int) {
	_, err := d.opened().Edit(ctx, time.Now(), deferred.Edit{Action: deferred.Cancel, ID: e.ID, Result: resultOf(e, nil)})
	switch {
	case err == nil:
		d.counts.add(d.counts.deliveries, event{e.Rule, "cancelled"})
		d.ring()
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(err, deferred.ErrState):
		service.WriteError(w, http.StatusConflict, errors.New("the request is being delivered, or has been"))
	case errors.Is(err, deferred.ErrNotFound):
		service.WriteError(w, http.StatusNotFound, errNone)
	default:
		service.WriteError(w, http.StatusServiceUnavailable, unavailable(w))
	}
}
