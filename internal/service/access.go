package service

// An Endpoint is one of a program's own endpoints, and who may use it.
type Endpoint struct {
	Program string // empty: all programs have it
	Pattern string // as http.ServeMux takes it
	Guarded bool   // only those whom the Guard lets pass; false: everybody
}

// OwnEndpoints lists the own endpoints of all programs. An endpoint is guarded
// if it changes, starts, stops or teaches something, or if it reveals clients,
// credentials or addresses of the network behind the program. What is not in
// the list cannot be registered.
func OwnEndpoints() []Endpoint {
	const open, guarded = false, true
	return []Endpoint{
		{"", "GET " + livenessPath, open},
		{"", "GET " + readinessPath, open},
		{"", "GET /metrics", open},
		{"", "GET /actuator/prometheus", open},

		{"proxy", "GET /config/limits", guarded},
		{"proxy", "POST /config/limits", guarded},
		{"proxy", "DELETE /config/limits", guarded},
		{"proxy", "POST /config/algorithm", guarded},
		{"proxy", "GET /config/rules", guarded},
		{"proxy", "PUT /config/rules", guarded},
		{"proxy", "GET /config/keys", guarded},
		{"proxy", "DELETE /config/keys", guarded},
		{"proxy", "POST /config/keys", guarded},
		{"proxy", "GET /config/decisions/{id}", guarded},
		{"proxy", "GET /config/gate", guarded},
		{"proxy", "GET /config/targets", guarded},
		{"proxy", "POST /config/targets", guarded},
		{"proxy", "GET /config/adaptive", guarded},
		{"proxy", "POST /reload", guarded},

		{"loadgen", "POST /test/start", guarded},
		{"loadgen", "POST /test/stop", guarded},
		{"loadgen", "GET /test/config", guarded}, // fields of requests may be credentials
		{"loadgen", "GET /test/status", open},
		{"loadgen", "GET /test/result", open},
		{"loadgen", "GET /test/report", open},
		{"loadgen", "GET /{$}", open},

		{"target", "GET /model", open},
		{"target", "POST /model", guarded},

		{"advisor", "POST /v1/limit-config", guarded},
		{"advisor", "GET /v1/forecast", open},
		{"advisor", "GET /v1/history", open},
		{"advisor", "GET /v1/state", open},
		{"advisor", "GET /{$}", open},
	}
}
