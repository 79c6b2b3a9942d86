package delivery

import (
	"weir/internal/net/share"
	"weir/proxy/deferred"
	"weir/proxy/deferred/callback"
)

// places are the places of the deliveries in progress. A rule has at most as many as are free, and
// so at most half of all. A client has at most half of what its rule may have, and of all rules
// together at most half: however many keys it uses, a further client finds a place.
//
// Owned by the owner of what is shared.
type places struct {
	all share.Usage
	by  map[string]*share.Usage // by rule; those with deliveries in progress
}

// take takes a place, and reports whether there is one for the client.
func (p *places) take(rule string, c share.Client) bool {
	held := p.by[rule]
	if held == nil {
		held = new(share.Usage)
	}
	others := p.all.Total() - held.Total()
	if !p.all.Admits(c, 1, underWayMax) || !held.Admits(c, 1, (underWayMax-others+1)/2) {
		return false
	}
	p.all.Add(c, 1)
	held.Add(c, 1)
	p.by[rule] = held
	return true
}

// leave gives a place back.
func (p *places) leave(rule string, c share.Client) {
	p.all.Add(c, -1)
	held := p.by[rule]
	if held.Add(c, -1); held.Total() == 0 {
		delete(p.by, rule)
	}
}

// clients returns how many clients of a rule have places.
func (p *places) clients(rule string) int {
	if held := p.by[rule]; held != nil {
		return held.Clients()
	}
	return 0
}

// full returns the rules that have at least as many places as are free.
func (p *places) full(free int) (rules []string) {
	for rule, held := range p.by {
		if held.Total() >= int64(free) {
			rules = append(rules, rule)
		}
	}
	return rules
}

// clientOf returns the client in whose share the delivery of an entry counts. That of a callback is
// the client of the request that it reports.
func clientOf(e *deferred.Entry) share.Client {
	if e.Rule == CallbackRule {
		_, c := callback.ParseReceiverKey(e.LineKey)
		return c
	}
	return e.Client()
}
