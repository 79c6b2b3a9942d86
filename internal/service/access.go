package service

// An Endpoint is one of a program's own endpoints: who may use it, and with which
// parameters.
type Endpoint struct {
	Program string // empty: all programs have it
	Pattern string // as http.ServeMux takes it
	Guarded bool   // only those whom the Guard lets pass; false: everybody
	// Query names the parameters that the URL may have, separated by spaces; others
	// are a 400. A * is any: probes of health may add what keeps caches away.
	Query string
}

// OwnEndpoints lists the own endpoints of all programs. An endpoint is guarded
// if it changes, starts, stops or teaches something, or if it reveals clients,
// credentials or addresses of the network behind the program. What is not in
// the list cannot be registered, nor can a handler see parameters that are not there.
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
		{"proxy", "GET /config/deferred/page", open, ""}, // asks the guarded endpoints
		{"proxy", "GET /deferred/{id}", open, "*"},       // only who has the key that the request was counted under gets an answer
		{"proxy", "GET /deferred/{id}/result", open, "*"},
		{"proxy", "DELETE /deferred/{id}", open, "*"},
		{"proxy", "POST /reload", guarded, ""},

		{"loadgen", "POST /test/start", guarded, ""},
		{"loadgen", "POST /test/stop", guarded, ""},
		{"loadgen", "GET /test/config", guarded, ""}, // fields of requests may be credentials
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
