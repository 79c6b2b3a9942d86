package admin

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"weir/internal/service"
	"weir/internal/strict"
	"weir/proxy/limit"
	"weir/proxy/store"
)

// limitsAnswer is the answer of GET /config/limits.
type limitsAnswer struct {
	limit.Config
	Version   int64  `json:"version"`
	Source    string `json:"source"`
	UpdatedAt string `json:"updatedAt"`
	Stored    any    `json:"stored"` // see storedWord
	Pinned    bool   `json:"pinned,omitempty"`
	Note      string `json:"note,omitempty"` // of POST: numbers without effect
}

// storedWord returns what answers say about where a configuration is: true if the store
// has it, "memory" if that store is in this process and ends with it, false if only this
// proxy has it.
func storedWord(stored, inMemory bool) any {
	if stored && inMemory {
		return "memory"
	}
	return stored
}

func (l *Limits) answerOf(a *Active) limitsAnswer {
	return limitsAnswer{Config: a.Policy.Limit.Config(), Version: a.Version, Source: a.Source, UpdatedAt: a.UpdatedAt.UTC().Format(time.RFC3339Nano), Stored: storedWord(a.Stored, l.InMemory), Pinned: a.Pinned}
}

// Register adds the endpoints of the limit configuration to own.
func (l *Limits) Register(own *service.Endpoints) {
	own.HandleFunc("GET /config/limits", func(w http.ResponseWriter, _ *http.Request) { l.answer(w, l.Active(), nil, "") })
	own.HandleFunc("POST /config/limits", l.post)
	own.HandleFunc("DELETE /config/limits", l.delete)
	own.HandleFunc("POST /config/algorithm", l.postAlgorithm)
}

// answer writes the configuration in force with a note, or the error. An error that
// merely wraps a JSON error concerns the stored document, not the request.
func (l *Limits) answer(w http.ResponseWriter, a *Active, err error, note string) {
	switch {
	case err == nil:
		w.Header().Set("ETag", strconv.Quote(strconv.FormatInt(a.Version, 10)))
		body := l.answerOf(a)
		body.Note = note
		service.WriteJSON(w, http.StatusOK, body)
	case errors.Is(err, ErrConflict), errors.Is(err, store.ErrReadOnly):
		service.WriteError(w, http.StatusConflict, err)
	case ofRequest(err):
		service.WriteError(w, http.StatusBadRequest, err)
	case errors.Is(err, ErrAway):
		service.WriteError(w, http.StatusServiceUnavailable, err)
	default:
		service.WriteError(w, http.StatusInternalServerError, err)
	}
}

// ofRequest reports whether an error is the request's fault.
func ofRequest(err error) bool {
	switch err.(type) {
	case strict.Fault, strict.Faults:
		return true
	}
	return false
}

func (l *Limits) post(w http.ResponseWriter, r *http.Request) {
	body, ok := service.AnswerBody(w, r)
	if !ok {
		return
	}
	ch := Change{Source: SourceAPI, IfMatch: -1}
	err := strict.DecodeIgnoringUnknown(body, &ch.Config)
	if err == nil {
		ch.Pin, err = boolQuery(r, "pin")
	}
	if err == nil {
		ch.IfMatch, err = ifMatch(r)
	}
	if err != nil {
		l.answer(w, nil, err, "")
		return
	}
	a, err := l.Apply(time.Now(), ch)
	l.answer(w, a, err, unused(ch.Config))
}

// unused lists the numbers of a configuration that its algorithm does not use.
func unused(c limit.Config) string {
	stray := c.Stray()
	if stray == nil {
		return ""
	}
	return fmt.Sprintf("without effect until the algorithm is switched: %s; algorithm %v uses %s", strings.Join(stray, ", "), c.Algorithm, c.Algorithm.Uses())
}

// ifMatch returns the version of If-Match, or -1 without one.
func ifMatch(r *http.Request) (int64, error) {
	text := r.Header.Get("If-Match")
	if text == "" || text == "*" {
		return -1, nil
	}
	version, err := strconv.ParseInt(strings.Trim(text, `"`), 10, 64)
	if err != nil || version < 0 {
		return 0, strict.Fault{Path: "If-Match", Message: "must be a version as GET /config/limits gives it, is " + strconv.Quote(text)}
	}
	return version, nil
}

func (l *Limits) delete(w http.ResponseWriter, r *http.Request) {
	version, err := ifMatch(r)
	var a *Active
	if err == nil {
		a, err = l.Delete(time.Now(), version)
	}
	l.answer(w, a, err, "")
}

func boolQuery(r *http.Request, name string) (bool, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return false, nil
	}
	v, err := strconv.ParseBool(text)
	if err != nil {
		return false, strict.Fault{Path: name, Message: "must be true or false, is " + strconv.Quote(text)}
	}
	return v, nil
}

func (l *Limits) postAlgorithm(w http.ResponseWriter, r *http.Request) {
	word := r.URL.Query().Get("algorithm")
	if word == "" {
		var asked struct {
			Algorithm string `json:"algorithm"`
		}
		if !service.AnswerJSON(w, r, &asked) {
			return
		}
		word = asked.Algorithm
	}
	algorithm, err := limit.ParseAlgorithm(word)
	err = strict.At("algorithm", err)
	version := int64(-1)
	if err == nil {
		version, err = ifMatch(r)
	}
	var a *Active
	if err == nil {
		a, err = l.Switch(time.Now(), algorithm, version)
	}
	l.answer(w, a, err, "")
}

// RegisterDecisions adds GET /config/decisions/<id>. recall returns a decision by id.
func RegisterDecisions(own *service.Endpoints, recall func(id string) (any, bool)) {
	own.HandleFunc("GET /config/decisions/{id}", func(w http.ResponseWriter, r *http.Request) {
		found, ok := recall(r.PathValue("id"))
		if !ok {
			service.WriteError(w, http.StatusNotFound, errors.New("no such decision: only the latest ones are kept"))
			return
		}
		service.WriteJSON(w, http.StatusOK, found)
	})
}
