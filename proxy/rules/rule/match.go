package rule

import (
	"bytes"
	"net/netip"
	"slices"
	"time"

	"weir/proxy/limit"
	"weir/proxy/rules/keys"
)

// A MatchedRule is a rule that applies to a request, with what the store is asked.
type MatchedRule struct {
	Rule  *Rule
	Index int          // of the rule in the Set
	Key   []byte       // what is counted separately within the rule; see [keys.AppendPart]
	Limit *limit.Limit // the client's own, or else the rule's
	Cost  int64        // ≥ 1
	// Reserve is how many permits must be left, because they are kept back from the
	// request's class.
	Reserve int64
	// MaxDelay bounds how long leaky may hold the request. 0 means the length of its
	// queue.
	MaxDelay time.Duration
	// MissingPart is the first part of the key that the request lacks, or nil.
	MissingPart *keys.Part
	unclear     bool    // because it can be read in several ways
	own         *client // entry of the client file, if the rule uses it
}

// Match returns the rules that apply to a request, in the order of the file, with the
// built-in rule for clients last. A rule has several matches if its key has several interpretations.
// There are at most [MatchedRulesMax], unless more rules match because the request can be read in several
// ways; the caller refuses a request with more. client is the client's
// address as seen through trusted proxies, or the zero Addr if it is unknown. The matches
// refer to the scratch and the request, and are valid until either is reused.
func (s *Set) Match(r *keys.Request, client netip.Addr, x *Scratch) []MatchedRule {
	x.begin(s.parts, r, client)
	for _, i := range s.index.always {
		s.try(x, i)
	}
	if len(s.index.paths)+len(s.index.prefixes) > 0 {
		for _, path := range x.interpretations() {
			s.tryAll(x, s.index.paths[string(path[1:])])
			s.tryPrefixes(x, path[1:])
		}
	}
	if len(s.index.hosts) > 0 {
		s.tryAll(x, s.index.hosts[string(x.hostOf())])
	}
	for k := range s.index.words {
		w := &s.index.words[k]
		s.tryInterpretations(x, w)
		if x.pathN > 1 && s.parts[w.slot].Source == keys.Path {
			for _, path := range x.paths[:x.pathN] {
				s.tryAll(x, w.rules[string(path)])
			}
		}
	}
	if len(x.unclear) > 0 {
		s.hitEach(x)
	}
	slices.SortStableFunc(x.matched, func(a, b MatchedRule) int { return a.Index - b.Index })
	s.share(x)
	return x.matched
}

// tryPrefixes tries the rules filed under the first segments of a path.
func (s *Set) tryPrefixes(x *Scratch, path []byte) {
	end := 0
	for range s.index.depth {
		next := bytes.IndexByte(path[end:], '/')
		if next < 0 {
			s.tryAll(x, s.index.prefixes[string(path)])
			return
		}
		end += next
		s.tryAll(x, s.index.prefixes[string(path[:end])])
		end++
	}
}

// tryAll tries rules that another interpretation of the request may have tried already.
func (s *Set) tryAll(x *Scratch, rules []int) {
	once := x.pathN <= 1 && len(x.several) == 0
	for _, i := range rules {
		if once || !slices.Contains(x.unclear, i) && !slices.ContainsFunc(x.matched,
			func(h MatchedRule) bool { return h.Index == i }) {
			s.try(x, i)
		}
	}
}

// try adds a match if a rule applies, or notes the rule if its key has several interpretations.
func (s *Set) try(x *Scratch, i int) {
	c := &s.rules[i]
	if !takes(c.Match.Methods, x.request.MethodText) || !has(c.Match.Addresses, x.client) {
		return
	}
	for k := range c.conditions {
		d := &c.conditions[k]
		if v := x.value(d.Slot); !d.holds(v) && !x.holdsOtherwise(d) && !x.holdsInOne(d, v) {
			return
		}
	}
	if c.hostOf != nil && !c.hostOf.Matches(x.hostOf()) { // hosts are shorter than paths
		return
	}
	if c.pathOf != nil && !c.pathOf.Matches(x.interpretations()[0][1:]) && !x.matchesOtherwise(c.pathOf) {
		return
	}
	if x.look(c.key); len(x.several) > 0 && c.isUnclear(x) {
		x.unclear = append(x.unclear, i)
		return
	}
	s.hit(x, i)
}

// hit adds a match of a rule that matches, unless the rule is skipped.
func (s *Set) hit(x *Scratch, i int) {
	c := &s.rules[i]
	match := MatchedRule{Rule: &c.Rule, Index: i, Limit: &c.limit, MaxDelay: c.delay}
	lacks, skipped := c.lack(x)
	if skipped {
		return
	}
	if lacks != none {
		match.MissingPart, match.unclear = &c.Key[lacks], x.value(c.key[lacks]).several
	}
	if c.Clients && s.clients != nil {
		if v := x.value(c.key[0]); v.present {
			match.own = c.clientOf(s.clients, v.text)
		}
	}
	if match.own != nil {
		match.Limit, match.Cost = &c.limits[match.own.limit], int64(match.own.cost)
	} else if c.limit.Algorithm() == 0 { // the built-in rule for clients has no limit for others
		return
	}
	if match.Cost == 0 {
		match.Cost = c.costOf(x)
	}
	match.Key = x.key(c.key)
	x.matched = append(x.matched, match)
}

// takes reports whether the methods contain the method, or there are none.
func takes(methods []string, method []byte) bool {
	return methods == nil || slices.ContainsFunc(methods, func(m string) bool { return m == string(method) })
}

// share sets for each match what is kept back from the request. The priority of the
// client's entry, whichever rule found it, overrides the field in every rule that has
// such a class.
func (s *Set) share(x *Scratch) {
	class := x.class()
	for i := range x.matched {
		match := &x.matched[i]
		c := &s.rules[match.Index]
		if c.shares == nil {
			continue
		}
		share := s.shareIn(x, c, class, true)
		// A limit of one permit has no share to keep back: the class would never be
		// admitted.
		match.Reserve = min(match.Limit.Reserve(share), max(0, match.Limit.Burst()-1))
	}
}

// Rank returns the rank of the priority class of the request matched last. The more of the limit
// is reserved against a class, the lower it ranks. 0 is the highest rank, and that of requests
// without a class. If several classes apply, the lowest counts. The fields of a request determine
// its class only if the request came through a trusted proxy.
func (s *Set) Rank(x *Scratch, trusted bool) (rank int) {
	if len(s.shares) == 0 {
		return 0
	}
	class := x.class()
	for i := range x.matched {
		c := &s.rules[x.matched[i].Index]
		if c.shares == nil {
			continue
		}
		at, _ := slices.BinarySearch(s.shares, s.shareIn(x, c, class, trusted))
		rank = max(rank, at)
	}
	return rank
}

// class returns the index of the class that the client file gives the request, or none.
func (x *Scratch) class() int {
	for i := range x.matched {
		if class := x.matched[i].class(); class != none {
			return class
		}
	}
	return none
}

// class likewise returns that of the match's client.
func (m *MatchedRule) class() int {
	if m.own == nil || m.own.class == 0 {
		return none
	}
	return int(m.own.class) - 1
}

// shareOf returns what is kept back, in thousandths, from a class of the client file, or
// otherwise from the class that a field names.
func (c *compiled) shareOf(class int, field []byte) int64 {
	if class != none && c.clients[class] >= 0 {
		return c.clients[class]
	}
	if share, ok := c.shares[string(field)]; ok {
		return share
	}
	return c.usual
}
