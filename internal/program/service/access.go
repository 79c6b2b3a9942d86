package service

// An Endpoint is one of a program's own endpoints, with its access and the
// parameters that it accepts.
type Endpoint struct {
	Program string // empty: all programs; ratelimit: the proxy with the environment of envoyproxy/ratelimit
	Pattern string // pattern for http.ServeMux
	Guarded bool   // only for requests that pass the AccessGuard; false: for all
	// Query names the parameters that the URL may have, separated by spaces. Others get
	// 400. A * means any: health probes may add parameters to avoid caches.
	Query string
}

// resultPattern is the endpoint that answers with what a target has answered.
const resultPattern = "GET /deferred/{id}/result"

// ServesUntrustedContent reports whether the answer is content of clients or targets, which a browser may run
// as a page of this origin. Such an endpoint is not on a port for operators.
func (e Endpoint) ServesUntrustedContent() bool { return e.Pattern == resultPattern }

// OwnEndpoints lists the own endpoints of all programs. An endpoint is guarded if it
// starts, stops or changes something, including what was learned, or if it reveals clients,
// credentials or addresses of the network behind the program. An endpoint that is not in
// the list cannot be registered, and its handler sees only listed parameters.
func OwnEndpoints() []Endpoint {
	const open, guarded = false, true
	return []Endpoint{
		{"", "GET " + livenessPath, open, "*"},
		{"", "GET " + readinessPath, open, "*"},
		{"", "GET /metrics", open, ""},
		{"", "GET /actuator/prometheus", open, ""},

		{"proxy", "GET /config/limits", guarded, ""},
		{"proxy", "POST /config/limits", guarded, "pin"},
		{"proxy", "DELETE /config/limits", guarded, ""},
		{"proxy", "POST /config/algorithm", guarded, "algorithm"},
		{"proxy", "GET /config/rules", guarded, ""},
		{"proxy", "PUT /config/rules", guarded, ""},
		{"proxy", "GET /config/keys", guarded, "rule key limit"},
		{"proxy", "DELETE /config/keys", guarded, "rule key"},
		{"proxy", "POST /config/keys", guarded, ""},
		{"proxy", "GET /config/decisions/{id}", guarded, ""},
		{"proxy", "GET /config/gate", guarded, "target limit"},
		{"proxy", "GET /config/targets", guarded, ""},
		{"proxy", "POST /config/targets", guarded, ""},
		{"proxy", "GET /config/adaptive", guarded, ""},
		{"proxy", "GET /config/deferred", guarded, "rule state after limit"},
		{"proxy", "POST /config/deferred", guarded, ""},
		{"proxy", "POST /config/deferred/{id}", guarded, ""},
		{"proxy", "GET /config/deferred/page", open, ""}, // uses the guarded endpoints
		// answers only clients with the key that the request was counted under
		{"proxy", "GET /deferred/{id}", open, "*"},
		{"proxy", resultPattern, open, "*"},
		{"proxy", "DELETE /deferred/{id}", open, "*"},
		{"proxy", "POST /reload", guarded, ""},
		{"ratelimit", "GET /rlconfig", guarded, ""},

		{"loadgen", "POST /test/start", guarded, ""},
		{"loadgen", "POST /test/stop", guarded, ""},
		{"loadgen", "GET /test/plans", open, ""},     // names only
		{"loadgen", "GET /test/config", guarded, ""}, // request fields may be credentials
		{"loadgen", "GET /test/status", open, "after"},
		{"loadgen", "GET /test/result", open, ""},
		{"loadgen", "GET /test/report", open, ""},
		{"loadgen", "GET /{$}", open, ""},

		{"target", "GET /model", open, ""},
		{"target", "POST /model", guarded, ""},

		{"advisor", "POST /v1/limit-config", guarded, ""},
		{"advisor", "GET /v1/forecast", open, "horizon"},
		{"advisor", "GET /v1/history", open, "span resolution"},
		{"advisor", "GET /v1/state", open, ""},
		{"advisor", "GET /{$}", open, ""},
	}
}
