package admin

import (
	"errors"
	"fmt"
	"net/http"

	"weir/internal/service"
	"weir/internal/strict"
)

// Targets has what the endpoints of the targets need from the proxy.
type Targets struct {
	// None says that nothing is forwarded: there are no targets, and none may be posted.
	None bool
	// Status returns the state of the targets, for JSON.
	Status func() any
	// Gates returns, for JSON, the state of the gates of at most limit targets: of the
	// one with the given URL, address or number, or of any if target is empty.
	Gates func(target string, limit int) any
	// Replace makes the URLs the targets. An error is about the URL with the returned
	// index.
	Replace func(urls []string) (index int, err error)
}

const (
	// targetsMax bounds how many targets there may be.
	targetsMax = 1000
	// gatesDefault and gatesMax bound how many targets GET /config/gate lists. A name may
	// have many addresses, each of which is a target.
	gatesDefault = 100
	gatesMax     = 10_000
)

// Register adds the endpoints of the targets to own:
//
//	GET  /config/targets
//	POST /config/targets {"targets":["http://a:1"]}
//	GET  /config/gate?target=http://a:1&limit=100
func (t *Targets) Register(own *service.Endpoints) {
	own.HandleFunc("GET /config/targets", func(w http.ResponseWriter, _ *http.Request) { t.answer(w) })
	own.HandleFunc("POST /config/targets", t.post)
	own.HandleFunc("GET /config/gate", func(w http.ResponseWriter, r *http.Request) {
		n, err := intQuery(r, "limit", gatesDefault, gatesMax)
		if err != nil {
			service.WriteError(w, http.StatusBadRequest, err)
			return
		}
		service.WriteJSON(w, http.StatusOK, t.Gates(r.URL.Query().Get("target"), n))
	})
}

func (t *Targets) answer(w http.ResponseWriter) {
	service.WriteJSON(w, http.StatusOK, map[string]any{"targets": t.Status()})
}

// post replaces the list: {"targets":["http://a:1", …]}. It applies to this proxy, and to
// a successor that takes the port over with the same TARGET_URL.
func (t *Targets) post(w http.ResponseWriter, r *http.Request) {
	if t.None {
		service.WriteError(w, http.StatusConflict, errors.New("nothing is forwarded here: TARGET_URL is none"))
		return
	}
	var asked struct {
		Targets []string `json:"targets"`
	}
	if !service.AnswerJSON(w, r, &asked) {
		return
	}
	if n := len(asked.Targets); n == 0 || n > targetsMax {
		service.WriteError(w, http.StatusBadRequest,
			strict.Fault{Path: "targets", Message: fmt.Sprintf("must have from 1 to %d URLs, has %d", targetsMax, n)})
		return
	}
	if i, err := t.Replace(asked.Targets); err != nil {
		service.WriteError(w, http.StatusBadRequest,
			strict.Fault{Path: fmt.Sprintf("targets[%d]", i), Message: err.Error() + "; allowed: http://host:port or https://host:port"})
		return
	}
	t.answer(w)
}
