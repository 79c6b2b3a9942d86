package report

import (
	"net/netip"
	"strconv"
	"time"

	"weir/proxy/limit"
	"weir/proxy/rules/decide"
	"weir/proxy/rules/keys"
	"weir/proxy/rules/rule"
	"weir/proxy/store"
)

// A RefusedRequest is a refusal and its time. Its key is a copy, possibly shortened. It does not
// refer to a rule or limit, which would keep whole sets alive.
type RefusedRequest struct {
	at        time.Time
	rule      string
	mode      rule.Mode
	parts     []keys.Part
	algorithm limit.Algorithm
	window    time.Duration
	cost      int64
	client    netip.Addr
	version   string
	keyBytes  int
	key       [store.PartBytesMax]byte
	idBytes   int
	id        [decide.RequestIDMax]byte // request id
	limit.Decision
}

// RefusalExplanation is the JSON form of a refusal at GET /config/decisions/<id>. Times are in
// seconds.
type RefusalExplanation struct {
	ID         string          `json:"id"`
	At         time.Time       `json:"at"`
	Rule       string          `json:"rule"`
	Mode       rule.Mode       `json:"mode"`
	Key        []keys.Part     `json:"key,omitempty"` // what is counted separately; none: everything together
	Counter    string          `json:"counter"`       // the key's value, shortened; of secret parts a digest
	Algorithm  limit.Algorithm `json:"algorithm"`
	Window     float64         `json:"window,omitempty"`
	Cost       int64           `json:"cost"`
	Client     netip.Addr      `json:"client"`
	Limit      int64           `json:"limit"`
	Remaining  int64           `json:"remaining"`
	RetryAfter *float64        `json:"retryAfter,omitempty"` // none: the limit can never admit the cost
	ResetAfter float64         `json:"resetAfter"`
	Version    string          `json:"configuration"` // identifies the limits and rules that were in force
	RequestID  string          `json:"requestId,omitempty"`
}

// Explain returns the explanation of a stored refusal.
func (r *RefusedRequest) Explain(id string) RefusalExplanation {
	e := RefusalExplanation{ID: id, At: r.at.UTC(), Rule: r.rule, Mode: r.mode, Key: r.parts,
		Counter:   strconv.QuoteToASCII(string(keys.AppendRedacted(nil, r.key[:r.keyBytes]))),
		Algorithm: r.algorithm, Window: r.window.Seconds(), Cost: r.cost, Client: r.client,
		Limit: r.Limit, Remaining: r.Remaining, ResetAfter: r.ResetAfter.Seconds(), Version: r.version,
		RequestID: string(r.id[:r.idBytes])}
	if r.RetryAfter != limit.Never {
		after := r.RetryAfter.Seconds()
		e.RetryAfter = &after
	}
	return e
}

// Record stores a refusal without allocating.
func (r *RefusedRequest) Record(now time.Time, refusal *decide.Refusal) {
	r.at, r.Decision = now, refusal.Decision
	r.rule, r.mode, r.parts = refusal.Rule.ID, refusal.Rule.Mode, refusal.Rule.Key
	r.algorithm, r.window = refusal.Limit.Algorithm(), refusal.Limit.Window()
	r.cost, r.client, r.version = refusal.Cost, refusal.Client, refusal.Version
	r.keyBytes = copy(r.key[:], refusal.Key)
	r.idBytes = copy(r.id[:], refusal.Request)
}
