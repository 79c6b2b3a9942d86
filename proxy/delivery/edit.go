package delivery

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"weir/internal/service"
	"weir/internal/strict"
	"weir/proxy/deferred"
)

// pageUsual is how many entries a page has unless it is said.
const pageUsual = 100

// A listing is GET /config/deferred.
type listing struct {
	Durability string     `json:"durability"`
	Bytes      int64      `json:"bytes"`
	Unreadable int        `json:"unreadable"`
	Rules      []ruleTold `json:"rules"`
	Entries    []*told    `json:"entries"`
	Next       string     `json:"next,omitempty"` // the parameter after of the next page
}

// A ruleTold is what is stored for one rule.
type ruleTold struct {
	Rule   string         `json:"rule"`
	Paused bool           `json:"paused"`
	Oldest float64        `json:"oldest"` // seconds that the oldest in a line has waited
	States map[string]int `json:"states"`
}

// list tells what is stored, and the entries of a rule and a state: by default those that wait.
func (d *Dispatcher) list(w http.ResponseWriter, r *http.Request) {
	values := r.URL.Query()
	query := deferred.Query{Rule: values.Get("rule"), After: values.Get("after"), Limit: pageUsual}
	var err error
	if values.Has("state") {
		query.State, err = deferred.ParseState(values.Get("state"))
		err = strict.At("state", err)
	}
	if text := values.Get("limit"); text != "" && err == nil {
		if query.Limit, err = strconv.Atoi(text); err != nil || query.Limit < 1 || query.Limit > deferred.ListMax {
			err = strict.At("limit", fmt.Errorf("must be a whole number from 1 to %d, is %q", deferred.ListMax, text))
		}
	}
	if err != nil {
		service.WriteError(w, http.StatusBadRequest, err)
		return
	}
	q := d.opened()
	if q == nil {
		unavailable(w)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), askWithin)
	defer cancel()
	page, err := q.List(ctx, query)
	if err != nil {
		unavailable(w)
		return
	}
	stats := q.Stats()
	l := listing{Durability: stats.Durability, Bytes: stats.Bytes, Unreadable: stats.Unreadable, Rules: []ruleTold{}, Entries: []*told{}, Next: page.Next}
	for i := range stats.Rules {
		l.Rules = append(l.Rules, ruleTells(&stats.Rules[i]))
	}
	for _, e := range page.Entries {
		t := tellOf(e, 0)
		if e.Callback != "" {
			t.Callback = &toldCallback{URL: e.Callback}
		}
		l.Entries = append(l.Entries, t)
	}
	service.WriteJSON(w, http.StatusOK, &l)
}

func ruleTells(r *deferred.RuleStats) ruleTold {
	t := ruleTold{Rule: r.Rule, Paused: r.Paused, States: make(map[string]int)}
	if !r.Oldest.IsZero() {
		t.Oldest = time.Since(r.Oldest).Seconds()
	}
	for s := range deferred.State(deferred.StatesCount) {
		t.States[s.String()] = r.States[s].Entries
	}
	return t
}

// An order is what POST /config/deferred says.
type order struct {
	Rule   string `json:"rule"`
	State  string `json:"state"`
	Action string `json:"action"`
	Paused *bool  `json:"paused"`
}

// actionOf reads an action.
func actionOf(text string) (deferred.Action, error) {
	switch text {
	case "retry":
		return deferred.Retry, nil
	case "drop":
		return deferred.Drop, nil
	}
	return 0, strict.At("action", fmt.Errorf("must be one of retry, drop, is %q", text))
}

// read reads an order; false: it is answered.
func (d *Dispatcher) read(w http.ResponseWriter, r *http.Request) (o order, ok bool) {
	body, ok := service.AnswerBody(w, r)
	if !ok {
		return o, false
	}
	if err := strict.Decode(body, &o); err != nil {
		service.WriteError(w, http.StatusBadRequest, err)
		return o, false
	}
	if d.opened() == nil {
		unavailable(w)
		return o, false
	}
	return o, true
}

// editMany pauses a rule, or changes all its entries that are in a state.
func (d *Dispatcher) editMany(w http.ResponseWriter, r *http.Request) {
	o, ok := d.read(w, r)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), askWithin)
	defer cancel()
	switch {
	case o.Rule == "":
		service.WriteError(w, http.StatusBadRequest, strict.At("rule", errors.New("is missing; must be the id of a rule")))
	case o.Paused != nil && (o.Action != "" || o.State != ""):
		service.WriteError(w, http.StatusBadRequest, strict.At("paused", errors.New("must not be there with action or state")))
	case o.Paused != nil:
		d.changed(w, 0, d.opened().Pause(ctx, o.Rule, *o.Paused))
	default:
		edit := deferred.Edit{Rule: o.Rule}
		var err error
		if edit.Action, err = actionOf(o.Action); err == nil {
			edit.State, err = deferred.ParseState(o.State)
			err = strict.At("state", err)
		}
		if err == nil && !edit.State.Final() {
			err = strict.At("state", fmt.Errorf("must be done, failed, expired, unknown or cancelled, is %q", o.State))
		}
		if err != nil {
			service.WriteError(w, http.StatusBadRequest, err)
			return
		}
		n, err := d.opened().Edit(ctx, time.Now(), edit)
		d.changed(w, n, err)
	}
}

// editOne plays one entry again, or forgets it.
func (d *Dispatcher) editOne(w http.ResponseWriter, r *http.Request) {
	o, ok := d.read(w, r)
	if !ok {
		return
	}
	action, err := actionOf(o.Action)
	if err == nil && (o.Rule != "" || o.State != "" || o.Paused != nil) {
		err = errors.New("must have action only")
	}
	if err != nil {
		service.WriteError(w, http.StatusBadRequest, err)
		return
	}
	id, err := deferred.ParseID(r.PathValue("id"))
	if err != nil {
		service.WriteError(w, http.StatusBadRequest, strict.At("id", err))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), askWithin)
	defer cancel()
	n, err := d.opened().Edit(ctx, time.Now(), deferred.Edit{Action: action, ID: id})
	d.changed(w, n, err)
}

// changed answers an order.
func (d *Dispatcher) changed(w http.ResponseWriter, n int, err error) {
	switch {
	case err == nil:
		d.ring()
		service.WriteJSON(w, http.StatusOK, map[string]int{"changed": n})
	case errors.Is(err, deferred.ErrNotFound):
		service.WriteError(w, http.StatusNotFound, err)
	case errors.Is(err, deferred.ErrState):
		service.WriteError(w, http.StatusConflict, err)
	default:
		unavailable(w)
	}
}
