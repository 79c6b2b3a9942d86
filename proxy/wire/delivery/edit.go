package delivery

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"weir/internal/data/mask"
	"weir/internal/data/strict"
	"weir/internal/program/service"
	"weir/proxy/deferred"
)

// pageUsual is the default number of entries of a page.
const pageUsual = 100

// A listing is the answer to GET /config/deferred.
type listing struct {
	Durability string      `json:"durability"`
	Bytes      int64       `json:"bytes"`
	Unreadable int         `json:"unreadable"`
	Rules      []shownRule `json:"rules"`
	Entries    []*shown    `json:"entries"`
	Next       string      `json:"next,omitempty"` // value of the parameter after for the next page
}

// A shownRule is the number and size of the entries of one rule.
type shownRule struct {
	Rule   string         `json:"rule"`
	Paused bool           `json:"paused"`
	Oldest float64        `json:"oldest"` // seconds that the oldest entry in a line has waited
	States map[string]int `json:"states"`
}

// list returns what is stored for each rule, and the entries of a rule and a state, by default
// those that wait.
func (d *Dispatcher) list(w http.ResponseWriter, r *http.Request) (any, error) {
	values := r.URL.Query()
	query := deferred.Query{Rule: values.Get("rule"), After: values.Get("after")}
	var err error
	if values.Has("state") {
		if query.State, err = deferred.ParseState(values.Get("state")); err != nil {
			return nil, strict.WithPath("state", err)
		}
	}
	if query.Limit, err = service.IntQuery(r, "limit", pageUsual, deferred.ListMax); err != nil {
		return nil, err
	}
	q := d.opened()
	if q == nil {
		return nil, unavailable(w)
	}
	ctx, cancel := context.WithTimeout(r.Context(), askWithin)
	defer cancel()
	page, err := q.List(ctx, query)
	if err != nil {
		return nil, unavailable(w)
	}
	stats := q.Stats()
	l := listing{Durability: stats.Durability, Bytes: stats.Bytes, Unreadable: stats.Unreadable, Rules: []shownRule{},
		Entries: []*shown{}, Next: page.Next}
	for _, r := range stats.Rules {
		l.Rules = append(l.Rules, shownRuleOf(&r))
	}
	for _, e := range page.Entries {
		t := shownOf(e, 0)
		if e.Callback != "" {
			t.Callback = &shownCallback{URL: mask.Value(e.Callback)} // the client's, which may contain its token
		}
		l.Entries = append(l.Entries, t)
	}
	return &l, nil
}

func shownRuleOf(r *deferred.RuleStats) shownRule {
	t := shownRule{Rule: r.Rule, Paused: r.Paused, States: make(map[string]int)}
	if !r.Oldest.IsZero() {
		t.Oldest = time.Since(r.Oldest).Seconds()
	}
	for s := range deferred.State(deferred.StateCount) {
		t.States[s.String()] = r.States[s].Entries
	}
	return t
}

// An order is the body of POST /config/deferred.
type order struct {
	Rule   string `json:"rule"`
	State  string `json:"state"`
	Action string `json:"action"`
	Paused *bool  `json:"paused"`
}

func actionOf(text string) (deferred.Action, error) {
	switch text {
	case "retry":
		return deferred.Retry, nil
	case "drop":
		return deferred.Drop, nil
	}
	return 0, strict.WithPath("action", fmt.Errorf("must be one of retry, drop, is %q", text))
}

// orderOf reads an order. The error says why it is invalid.
func (d *Dispatcher) orderOf(w http.ResponseWriter, r *http.Request) (o order, err error) {
	if err = service.ReadJSON(w, r, &o); err == nil && d.opened() == nil {
		err = unavailable(w)
	}
	return o, err
}

// editMany pauses a rule, or changes all its entries in a state.
func (d *Dispatcher) editMany(w http.ResponseWriter, r *http.Request) (any, error) {
	o, err := d.orderOf(w, r)
	switch {
	case err != nil:
		return nil, err
	case o.Rule == "":
		return nil, strict.Fault{Path: "rule", Message: "is missing; must be the id of a rule"}
	case o.Paused != nil && (o.Action != "" || o.State != ""):
		return nil, strict.Fault{Path: "paused", Message: "must not be set together with action or state"}
	}
	ctx, cancel := context.WithTimeout(r.Context(), askWithin)
	defer cancel()
	if o.Paused != nil {
		return d.changed(w, 0, d.opened().Pause(ctx, o.Rule, *o.Paused))
	}
	edit := deferred.Edit{Rule: o.Rule}
	if edit.Action, err = actionOf(o.Action); err != nil {
		return nil, err
	}
	if edit.State, err = deferred.ParseState(o.State); err == nil && !edit.State.Final() {
		err = fmt.Errorf("must be done, failed, expired, unknown or cancelled, is %q", o.State)
	}
	if err != nil {
		return nil, strict.WithPath("state", err)
	}
	n, err := d.opened().Edit(ctx, time.Now(), edit)
	return d.changed(w, n, err)
}

// editOne retries or deletes one entry.
func (d *Dispatcher) editOne(w http.ResponseWriter, r *http.Request) (any, error) {
	o, err := d.orderOf(w, r)
	if err != nil {
		return nil, err
	}
	action, err := actionOf(o.Action)
	if err != nil {
		return nil, err
	}
	if o.Rule != "" || o.State != "" || o.Paused != nil {
		return nil, strict.Fault{Message: "must have action only"}
	}
	id, err := deferred.ParseID(r.PathValue("id"))
	if err != nil {
		return nil, strict.WithPath("id", err)
	}
	ctx, cancel := context.WithTimeout(r.Context(), askWithin)
	defer cancel()
	n, err := d.opened().Edit(ctx, time.Now(), deferred.Edit{Action: action, ID: id})
	return d.changed(w, n, err)
}

// changed returns the answer to an order that has changed n entries.
func (d *Dispatcher) changed(w http.ResponseWriter, n int, err error) (any, error) {
	if err != nil {
		return nil, withStatus(w, err)
	}
	d.ring()
	return map[string]int{"changed": n}, nil
}

// withStatus returns an error of the queue with the status of the answer.
func withStatus(w http.ResponseWriter, err error) error {
	switch {
	case errors.Is(err, deferred.ErrNotFound):
		return service.WithStatus(http.StatusNotFound, err)
	case errors.Is(err, deferred.ErrState):
		return service.WithStatus(http.StatusConflict, err)
	}
	return unavailable(w)
}
