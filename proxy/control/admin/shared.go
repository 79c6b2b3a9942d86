package admin

import "weir/proxy/store"

// storeHealth is the store's part of /actuator/health.
type storeHealth struct {
	Status string `json:"status"`
	Mode   string `json:"mode"`
}

// StoreHealth returns the health of the store.
func StoreHealth(s store.Store) any {
	if mode := s.Mode(); mode != store.Exact {
		return storeHealth{"DOWN", mode.String()}
	}
	return storeHealth{"UP", s.Name()}
}

// rulesHealth is the rules' part of /actuator/health. That endpoint is open, so the details are
// only in the log.
type rulesHealth struct {
	Status   string `json:"status"`
	Setting  string `json:"setting,omitempty"`  // setting whose file is ignored
	Document string `json:"document,omitempty"` // document of the store that is ignored
}

// Health returns the rules' health: DOWN if the last reload has failed and older rules stay in
// force.
func (r *Rules) Health() any {
	if e := r.fileIgnored.Load(); e != nil {
		return rulesHealth{Status: "DOWN", Setting: e.name}
	}
	if r.misread.Load() {
		return rulesHealth{Status: "DOWN", Document: r.name}
	}
	return rulesHealth{Status: "UP"}
}

// targetsHealth is the targets' part of /actuator/health.
type targetsHealth struct {
	Status  string            `json:"status"`
	Targets map[string]string `json:"targets"`
}

// TargetsHealth returns the health of the targets; up says which can be reached.
func TargetsHealth(up map[string]bool) any {
	h := targetsHealth{"DOWN", make(map[string]string, len(up))}
	for addr, reachable := range up {
		h.Targets[addr] = "DOWN"
		if reachable {
			h.Status, h.Targets[addr] = "UP", "UP"
		}
	}
	return h
}
