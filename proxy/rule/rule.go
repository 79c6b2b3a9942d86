package rule

import (
	"encoding/json"
	"time"

	"weir/internal/strict"
	"weir/proxy/keys"
	"weir/proxy/limit"
	"weir/proxy/overlap"
	"weir/proxy/pattern"
	"weir/proxy/terms"
)

// A Rule is one rule as the file has it: who is limited by what.
//
// Immutable after New.
type Rule struct {
	ID       string       `json:"id"`
	Exempt   bool         `json:"exempt,omitempty"` // no limit applies to what it matches; nothing else is set
	Match    Match        `json:"match,omitzero"`
	Key      []keys.Part  `json:"key,omitempty"` // global alone, or up to 8 others
	Limit    limit.Config `json:"limit,omitzero"`
	Clients  bool         `json:"clients,omitempty"` // limits of CLIENTS_FILE go before Limit
	Cost     Cost         `json:"cost,omitzero"`
	Mode     Mode         `json:"mode"`
	Soft     limit.Soft   `json:"soft,omitzero"` // none: a hard limit
	Priority Priority     `json:"priority,omitzero"`
	MaxDelay float64      `json:"maxDelay,omitempty"` // seconds that leaky may hold a request; 0, absent: as long as its queue is
	Missing  Missing      `json:"missing,omitzero"`

	// Refusal is what refusals of the rule look like.
	Refusal Refusal      `json:"refusal,omitzero"`
	Defer   *terms.Defer `json:"defer,omitempty"` // which refused requests are kept and delivered later; nil: none

	preflights string
}

// The ids of the rules that are not in the file.
const (
	Global      = "global"  // the limit of /config/limits; not a part of a Set
	ClientsRule = "clients" // CLIENTS_FILE, when no rule has clients: true
	ExemptRule  = "EXEMPT"  // the setting of that name; exempts
	// PreflightRule is the setting PREFLIGHT; with exempt it exempts.
	PreflightRule = "PREFLIGHT"
	// Candidate is the limit that the advisor would have in place of the global one:
	// with ADAPTIVE_MODE=shadow it is counted and not enforced; not a part of a Set.
	Candidate = "candidate"
)

// A Match is the predicate on a request; what is left out matches everything.
type Match struct {
	Methods   []string               `json:"methods,omitempty"`
	Path      string                 `json:"path,omitempty"`      // * one segment, ** any number
	Host      string                 `json:"host,omitempty"`      // without port; * one label, ** any number
	Headers   map[string]strict.Word `json:"headers,omitempty"`   // each there, and its first line equal to that
	Addresses []Network              `json:"addresses,omitempty"` // networks; one has the client, behind trusted proxies
}

// A Mode says what comes of a rule's refusal.
type Mode uint8

const (
	Enforce Mode = iota // 429
	Shadow              // counted and reported, never refused
)

// String returns the word of the file.
func (m Mode) String() string {
	if m == Shadow {
		return "shadow"
	}
	return "enforce"
}

// MarshalText returns [Mode.String].
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads that.
func (m *Mode) UnmarshalText(text []byte) (err error) {
	*m, err = strict.OneOf[Mode](text, "enforce", "shadow")
	return err
}

// A Cost is what a request takes of the limit. The zero Cost is 1.
type Cost struct {
	Header  string           `json:"header,omitempty"`  // the request says it, up to Max
	Methods map[string]int64 `json:"methods,omitempty"` // by method
	Default int64            `json:"default"`           // of a request that the rest says nothing about; 0 is 1
	Max     int64            `json:"max,omitempty"`     // 0: costMax
}

// costText is a Cost that is written as an object.
type costText Cost

// costMax is the largest cost; of one request, and exactly a billion so that no
// sum comes near 2^53.
const costMax = 1_000_000_000

// MarshalJSON returns the cost as rules have it: a number, or an object.
func (c Cost) MarshalJSON() ([]byte, error) {
	if c.Header == "" && c.Methods == nil {
		return json.Marshal(max(1, c.Default))
	}
	c.Default = max(1, c.Default)
	return json.Marshal(costText(c))
}

// of returns what a request with that method and cost field costs.
func (c *Cost) of(method, field []byte) int64 {
	usual := max(1, c.Default)
	if c.Methods != nil {
		if cost, ok := c.Methods[string(method)]; ok {
			return cost
		}
		return usual
	}
	if c.Header == "" {
		return usual
	}
	most := c.Max
	if most == 0 {
		most = costMax
	}
	cost := int64(0)
	for _, digit := range field {
		if digit < '0' || digit > '9' {
			return usual
		}
		cost = min(cost*10+int64(digit-'0'), most)
	}
	if len(field) == 0 {
		return usual
	}
	return max(1, cost)
}

// A Priority keeps a share of the limit back from classes of requests: under the
// limit's last share, lower classes are refused first. The zero Priority has no
// classes and keeps nothing back.
type Priority struct {
	Header  string             `json:"header,omitempty"` // says the class, unless the client file does
	Classes map[string]float64 `json:"classes"`          // share kept back, 0 ≤ share < 1, in thousandths
	Default string             `json:"default"`          // of requests that say none of them
}

// A compiled is a rule in the form in which it is matched.
//
// Immutable after New.
type compiled struct {
	Rule
	path       string // in the file, as in rules[2]
	limit      limit.Limit
	limited    bool          // Limit is there; not so in the built-in rule for clients
	limits     []limit.Limit // of the clients, in this rule
	pathOf     *pattern.Pattern
	hostOf     *pattern.Pattern
	conditions []condition
	key        []int // slots of its parts; none: global
	cost       int   // slot of Cost.Header, or none
	priority   int   // slot of Priority.Header, or none
	delay      time.Duration
	usual      int64            // kept back from the default class, in thousandths of the limit
	shares     map[string]int64 // and from each class
	clients    []int64          // and from the clients' classes; below 0: not a class here
}

// share returns what is kept back from the class that a field names, in
// thousandths.
func (c *compiled) share(field []byte) int64 {
	if share, ok := c.shares[string(field)]; ok {
		return share
	}
	return c.usual
}

// A condition is a demand on the value of a part.
type condition struct {
	part keys.Part
	overlap.Condition
}

// holds says whether a value fulfils the condition.
func (c *condition) holds(v value) bool {
	if c.None != nil {
		return v.present && !c.None.Values[string(v.text)]
	}
	return v.present && string(v.text) == c.Word
}
