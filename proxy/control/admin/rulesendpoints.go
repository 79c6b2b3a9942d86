package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"weir/internal/data/strict"
	"weir/internal/program/service"
)

// Register adds GET and PUT /config/rules to own.
//
// GET answers with the document in the form of a file, and with members that describe it, such as
// its version. PUT takes such a document as YAML or JSON, including an unchanged answer of GET.
func (r *Rules) Register(own *service.Endpoints) {
	own.HandleFunc("GET /config/rules", func(w http.ResponseWriter, _ *http.Request) { r.answer(w, r.Active(), nil) })
	own.HandleFunc("PUT /config/rules", r.exclusively(r.put))
}

// exclusively lets one request at a time change rules, which may take a second. Others
// get 503, so that workers remain for other requests.
func (r *Rules) exclusively(change http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, q *http.Request) {
		if !r.changing.TryLock() {
			w.Header().Set("Retry-After", "1")
			service.WriteError(w, http.StatusServiceUnavailable, errChanging)
			return
		}
		defer r.changing.Unlock()
		change(w, q)
	}
}

var errChanging = errors.New("rules are being read for another request; try again in a second")

// RegisterReload adds POST /reload to own, which reads rules and limits again and answers
// like GET /config/limits.
func RegisterReload(own *service.Endpoints, l *Limits, r *Rules) {
	own.HandleFunc("POST /reload", r.exclusively(func(w http.ResponseWriter, _ *http.Request) {
		now := time.Now()
		fault := r.Reload(now)
		r.logFault(fault)
		a, err := l.Reload(now)
		if err == nil && fault != nil {
			r.answer(w, nil, fault)
			return
		}
		answer, err := l.answer(w, a, err)
		if err != nil {
			service.WriteError(w, service.StatusOf(err), err)
			return
		}
		service.WriteJSON(w, http.StatusOK, answer)
	}))
}

func (r *Rules) put(w http.ResponseWriter, q *http.Request) {
	body, err := service.ReadBody(w, q)
	var version int64
	if err == nil {
		version, err = ifMatch(q)
	}
	var a *ActiveRules
	if err == nil {
		a, err = r.Put(time.Now(), body, version)
	}
	r.answer(w, a, err)
}

// rulesAnswer has the members that GET /config/rules adds to the document.
type rulesAnswer struct {
	Version   int64  `json:"version"`
	Epoch     int64  `json:"epoch"`
	Source    string `json:"source"`
	UpdatedAt string `json:"updatedAt"`
	Stored    any    `json:"stored"`                // see storedWord
	File      string `json:"file,omitempty"`        // RULES_FILE
	Clients   int    `json:"clients,omitempty"`     // number in CLIENTS_FILE
	ClientsOf string `json:"clientsFile,omitempty"` // CLIENTS_FILE
	// Notes lists what is allowed and has no effect.
	Notes strict.Faults `json:"notes,omitempty"`
}

// answerMembers are the members of rulesAnswer. A document may have them too, so that an
// answer of GET is a valid document. They are ignored there.
var answerMembers = []string{"version", "epoch", "source", "updatedAt", "stored", "file", "clients", "clientsFile",
	"notes"}

// faultyRules is the answer to invalid rules, with all faults.
type faultyRules struct {
	Error  string        `json:"error"`
	Path   string        `json:"path,omitempty"` // path of the first
	Faults strict.Faults `json:"faults"`
}

// answer writes the rules in force, or the error.
func (r *Rules) answer(w http.ResponseWriter, a *ActiveRules, err error) {
	var body []byte
	if err == nil {
		body, err = r.appendAnswer(a)
	}
	if err == nil {
		w.Header().Set("ETag", strconv.Quote(strconv.FormatInt(a.Version, 10)))
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body) // the client may have disconnected
		return
	}
	err = withStatus(err)
	if faults := faultsOf(err); faults != nil {
		service.WriteJSON(w, service.StatusOf(err), faultyRules{Error: err.Error(), Path: faults[0].Path, Faults: faults})
		return
	}
	service.WriteError(w, service.StatusOf(err), err)
}

// appendAnswer adds the members of rulesAnswer to the document of the rules, after its
// own members.
func (r *Rules) appendAnswer(a *ActiveRules) ([]byte, error) {
	document, err := a.Set.MarshalJSON()
	if err != nil {
		return nil, err
	}
	beside, err := json.Marshal(rulesAnswer{Version: a.Version, Epoch: a.Epoch, Source: a.Source,
		UpdatedAt: a.UpdatedAt.UTC().Format(time.RFC3339Nano), Stored: storedWord(a.Stored, r.InMemory), File: r.files.Rules,
		Clients: a.Clients, ClientsOf: r.files.Clients, Notes: a.Set.Notes()})
	if err != nil {
		return nil, err
	}
	body := bytes.TrimSuffix(bytes.TrimSpace(document), []byte("}"))
	body = append(body, ',')
	return append(append(body, beside[1:]...), '\n'), nil
}
