package admin

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"weir/internal/data/strict"
	"weir/internal/program/service"
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

// storedWord returns the value of stored in answers: true if the store has the configuration,
// "memory" if that store is in this process and ends with it, false if only this proxy has it.
func storedWord(stored, inMemory bool) any {
	if stored && inMemory {
		return "memory"
	}
	return stored
}

func (l *Limits) answerOf(a *ActiveLimit) *limitsAnswer {
	return &limitsAnswer{Config: a.Policy.Limit.Config(), Version: a.Version, Source: a.Source,
		UpdatedAt: a.UpdatedAt.UTC().Format(time.RFC3339Nano), Stored: storedWord(a.Stored, l.InMemory), Pinned: a.Pinned}
}

// Register adds the endpoints of the limit configuration to own.
func (l *Limits) Register(own *service.Endpoints) {
	own.HandleJSON("GET /config/limits", func(w http.ResponseWriter, _ *http.Request) (any,
		error) {
		return l.answer(w, l.Active(), nil)
	})
	own.HandleJSON("POST /config/limits", l.post)
	own.HandleJSON("DELETE /config/limits", l.delete)
	own.HandleJSON("POST /config/algorithm", l.postAlgorithm)
}

// answer returns the answer with the configuration in force, or the error with its status.
func (l *Limits) answer(w http.ResponseWriter, a *ActiveLimit, err error) (*limitsAnswer, error) {
	if err != nil {
		return nil, withStatus(err)
	}
	w.Header().Set("ETag", strconv.Quote(strconv.FormatInt(a.Version, 10)))
	return l.answerOf(a), nil
}

// withStatus returns the error of a change or a reload with the status of its answer.
// [service.StatusOf] knows the status of other errors. An error that merely wraps a fault is
// about the stored document or a file, not about the request.
func withStatus(err error) error {
	_, ofFile := errors.AsType[*fileError](err)
	_, large := errors.AsType[store.SizeError](err)
	switch {
	case large:
		return service.WithStatus(http.StatusRequestEntityTooLarge, err)
	case errors.Is(err, ErrConflict), errors.Is(err, store.ErrReadOnly), errors.Is(err, errRulesFile):
		return service.WithStatus(http.StatusConflict, err)
	case errors.Is(err, ErrUnavailable) && !ofFile:
		return service.WithStatus(http.StatusServiceUnavailable, err)
	}
	return err
}

func (l *Limits) post(w http.ResponseWriter, r *http.Request) (any, error) {
	body, err := service.ReadBody(w, r)
	if err != nil {
		return nil, err
	}
	ch := LimitChange{Source: SourceAPI}
	var stray ignored
	if err := strict.DecodeReportingUnknown(body, &ch.Config, stray.add); err != nil {
		return nil, err
	}
	if pin := r.URL.Query().Get("pin"); pin != "" {
		if ch.Pin, err = strconv.ParseBool(pin); err != nil {
			return nil, strict.Fault{Path: "pin", Message: "must be true or false, is " + strconv.Quote(pin)}
		}
	}
	if ch.IfMatch, err = ifMatch(r); err != nil {
		return nil, err
	}
	a, err := l.Apply(time.Now(), ch)
	answer, err := l.answer(w, a, err)
	if err == nil {
		answer.Note = strings.TrimPrefix(unused(ch.Config)+stray.note(), "; ")
	}
	return answer, err
}

// unused lists the numbers of a configuration that its algorithm does not use.
func unused(c limit.Config) string {
	stray := c.UnusedFields()
	if stray == nil {
		return ""
	}
	return fmt.Sprintf("without effect until the algorithm is switched: %s; algorithm %v uses %s",
		strings.Join(stray, ", "), c.Algorithm, c.Algorithm.FieldsText())
}

// ignored are the unknown fields of a request, without those that the advisor's answers have.
type ignored struct {
	names   []string
	further int
}

// ignoredMax bounds the fields that a note names.
const ignoredMax = 10

func (g *ignored) add(f strict.Fault) {
	switch {
	case f.Path == "predictedRps" || f.Path == "validFor":
	case len(g.names) == ignoredMax:
		g.further++
	default:
		g.names = append(g.names, fmt.Sprintf("%.64s", f.Path))
	}
}

// note says which fields are ignored; empty if none is.
func (g *ignored) note() string {
	if len(g.names) == 0 {
		return ""
	}
	more := ""
	if g.further > 0 {
		more = fmt.Sprintf(" and %d more", g.further)
	}
	return "; unknown fields are ignored: " + strings.Join(g.names, ", ") + more
}

// ifMatch returns the version of If-Match, or -1 without one.
func ifMatch(r *http.Request) (int64, error) {
	text := r.Header.Get("If-Match")
	if text == "" || text == "*" {
		return -1, nil
	}
	version, err := strconv.ParseInt(strings.Trim(text, `"`), 10, 64)
	if err != nil || version < 0 {
		return 0, strict.Fault{Path: "If-Match", Message: "must be a version from GET /config/limits, is " +
			strconv.Quote(text)}
	}
	return version, nil
}

func (l *Limits) delete(w http.ResponseWriter, r *http.Request) (any, error) {
	version, err := ifMatch(r)
	if err != nil {
		return nil, err
	}
	a, err := l.Delete(time.Now(), version)
	return l.answer(w, a, err)
}

func (l *Limits) postAlgorithm(w http.ResponseWriter, r *http.Request) (any, error) {
	word := r.URL.Query().Get("algorithm")
	if word == "" {
		var asked struct {
			Algorithm string `json:"algorithm"`
		}
		if err := service.ReadJSON(w, r, &asked); err != nil {
			return nil, err
		}
		word = asked.Algorithm
	}
	var algorithm limit.Algorithm
	if err := algorithm.UnmarshalText([]byte(word)); err != nil {
		return nil, strict.WithPath("algorithm", err)
	}
	version, err := ifMatch(r)
	if err != nil {
		return nil, err
	}
	a, err := l.Switch(time.Now(), algorithm, version)
	return l.answer(w, a, err)
}

// RegisterDecisions adds GET /config/decisions/<id>. recall returns a decision by id.
func RegisterDecisions(own *service.Endpoints, recall func(id string) (any, bool)) {
	own.HandleJSON("GET /config/decisions/{id}", func(_ http.ResponseWriter, r *http.Request) (any, error) {
		found, ok := recall(r.PathValue("id"))
		if !ok {
			return nil, service.WithStatus(http.StatusNotFound, errors.New("no such decision: only the latest ones are kept"))
		}
		return found, nil
	})
}
