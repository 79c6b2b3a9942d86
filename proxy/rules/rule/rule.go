package rule

import (
	"cmp"
	"encoding/json"
	"time"

	"weir/internal/data/strict"
	"weir/proxy/deferred"
	"weir/proxy/limit"
	"weir/proxy/rules/keys"
	"weir/proxy/rules/pattern"
)

// A Rule is one rule in the form of the file.
//
// Immutable after New.
type Rule struct {
	ID       string       `json:"id"`
	Exempt   bool         `json:"exempt,omitempty"` // no limit applies to what it matches; nothing else is set
	Match    Match        `json:"match,omitzero"`
	Key      []keys.Part  `json:"key,omitempty"` // global alone, or up to 8 others
	Limit    limit.Config `json:"limit,omitzero"`
	Clients  bool         `json:"clients,omitempty"` // limits of CLIENTS_FILE override Limit
	Cost     Cost         `json:"cost,omitzero"`
	Mode     Mode         `json:"mode"`
	Soft     limit.Soft   `json:"soft,omitzero"` // zero: a hard limit
	Priority Priority     `json:"priority,omitzero"`
	// seconds that leaky may hold a request; 0, absent: no bound but the queue
	MaxDelay float64       `json:"maxDelay,omitempty"`
	Missing  MissingPolicy `json:"missing,omitzero"`

	// Refusal says what refusals of the rule look like.
	Refusal RefusalStyle    `json:"refusal,omitzero"`
	Defer   *deferred.Defer `json:"defer,omitempty"` // which refused requests are stored and delivered later; nil: none

	preflights string
}

// The ids of rules that are not in the file.
const (
	GlobalID    = "global"  // the limit of /config/limits; not part of a Set
	ClientsRule = "clients" // CLIENTS_FILE, if no rule has clients: true
	ExemptRule  = "EXEMPT"  // the setting of that name
	// PreflightRule is the setting PREFLIGHT=exempt.
	PreflightRule = "PREFLIGHT"
	// CandidateRule is the limit that the advisor would set in place of the global one. With
	// ADAPTIVE_MODE=shadow it is counted and not enforced. It is not part of a Set.
	CandidateRule = "candidate"
)

// A Match is the predicate on a request. A missing element matches everything.
type Match struct {
	Methods   []string                 `json:"methods,omitempty"`
	Path      string                   `json:"path,omitempty"`      // * one segment, ** any number
	Host      string                   `json:"host,omitempty"`      // without port; * is one label, ** any number
	Headers   map[string]strict.Scalar `json:"headers,omitempty"`   // all must be present with this value
	Addresses []AddrPrefix             `json:"addresses,omitempty"` // networks, one of which contains the client's address
}

// A Mode says what happens when a rule refuses a request.
type Mode uint8

const (
	Enforce Mode = iota // 429
	Shadow              // counted and reported, never refused
)

// String returns the word used in files.
func (m Mode) String() string { return [...]string{"enforce", "shadow"}[m] }

// MarshalText returns [Mode.String].
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText is the inverse of [Mode.MarshalText].
func (m *Mode) UnmarshalText(text []byte) (err error) {
	*m, err = strict.OneOf[Mode](text, "enforce", "shadow")
	return err
}

// A Cost is the number of permits that a request takes. The zero Cost is 1.
type Cost struct {
	Header  string           `json:"header,omitempty"`  // field that gives the cost, up to Max
	Methods map[string]int64 `json:"methods,omitempty"` // by method
	Default int64            `json:"default"`           // for requests that the rest does not cover; 0 is 1
	Max     int64            `json:"max,omitempty"`     // 0: costMax
}

// costText is a Cost written as an object.
type costText Cost

// costMax is the largest cost of one request. It is small enough that no sum comes near
// 2^53.
const costMax = 1_000_000_000

// MarshalJSON returns the cost in the form of the file: a number, or an object.
func (c Cost) MarshalJSON() ([]byte, error) {
	c.Default = max(1, c.Default)
	if c.Header == "" && c.Methods == nil {
		return json.Marshal(c.Default)
	}
	return json.Marshal(costText(c))
}

// of returns the cost of a request with the given method and field Header, or no field.
func (c *Cost) of(method, field []byte) int64 {
	usual := max(1, c.Default)
	if cost, ok := c.Methods[string(method)]; ok {
		return cost
	}
	if len(field) == 0 {
		return usual
	}
	cost, most := int64(0), cmp.Or(c.Max, costMax)
	for _, digit := range field {
		if digit < '0' || digit > '9' {
			return usual
		}
		cost = min(cost*10+int64(digit-'0'), most)
	}
	return max(1, cost)
}

// A Priority keeps a share of the limit back from classes of requests, so that lower
// classes are refused first when the limit is nearly used up. The zero Priority has no
// classes and keeps nothing back.
type Priority struct {
	Header  string             `json:"header,omitempty"` // field that names the class, unless the client file does
	Classes map[string]float64 `json:"classes"`          // share kept back, 0 ≤ share < 1, in thousandths
	Default string             `json:"default"`          // class of requests that name none
}

// A compiled is a rule in the form used for matching.
//
// Immutable after New.
type compiled struct {
	Rule
	path       string        // path in the file, such as rules[2]
	limit      limit.Limit   // zero: the built-in rule for clients
	limits     []limit.Limit // the clients' limits in this rule
	pathOf     *pattern.Pattern
	hostOf     *pattern.Pattern
	conditions []condition
	key        []int // slots of its parts; empty: global
	cost       int   // slot of Cost.Header, or none
	priority   int   // slot of Priority.Header, or none
	delay      time.Duration
	usual      int64            // kept back from the default class, in thousandths of the limit
	shares     map[string]int64 // and from each class
	clients    []int64          // and from the clients' classes; negative: not a class here
	respelled  map[string]int   // clients whose names in the file are not the values of the key that they stand for
}

// A condition is a requirement on the value of a part.
type condition struct {
	part keys.Part
	pattern.PartCondition
}

func (c *condition) holds(v value) bool {
	if c.None != nil {
		return v.present && !c.None.Values[string(v.text)]
	}
	return v.present && string(v.text) == c.Word
}
