package admin

import (
	"errors"
	"fmt"
	"net/http"

	"weir/internal/data/strict"
	"weir/internal/program/service"
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
	targetsMax   = 1000
	gatesDefault = 100    // targets that GET /config/gate lists
	gatesMax     = 10_000 // a name may have many addresses, each of which is a target
)

// Register adds the endpoints of the targets to own:
//
//	GET  /config/targets
//	POST /config/targets {"targets":["http://a:1"]}
//	GET  /config/gate?target=http://a:1&limit=100
func (t *Targets) Register(own *service.Endpoints) {
	own.HandleJSON("GET /config/targets", func(http.ResponseWriter, *http.Request) (any, error) { return t.answer(), nil })
	own.HandleJSON("POST /config/targets", t.post)
	own.HandleJSON("GET /config/gate", func(_ http.ResponseWriter, r *http.Request) (any, error) {
		n, err := service.IntQuery(r, "limit", gatesDefault, gatesMax)
		if err != nil {
			return nil, err
		}
		return t.Gates(r.URL.Query().Get("target"), n), nil
	})
}

func (t *Targets) answer() any { return map[string]any{"targets": t.Status()} }

// post replaces the list: {"targets":["http://a:1", …]}. It applies to this proxy, and to
// a successor that takes the port over with the same TARGET_URL.
func (t *Targets) post(w http.ResponseWriter, r *http.Request) (any, error) {
	if t.None {
		return nil, service.WithStatus(http.StatusConflict, errors.New("nothing is forwarded here: TARGET_URL is none"))
	}
	var asked struct {
		Targets []string `json:"targets"`
	}
	if err := service.ReadJSON(w, r, &asked); err != nil {
		return nil, err
	}
	if n := len(asked.Targets); n == 0 || n > targetsMax {
		return nil, strict.Fault{Path: "targets", Message: fmt.Sprintf("must have from 1 to %d URLs, has %d", targetsMax, n)}
	}
	if i, err := t.Replace(asked.Targets); err != nil {
		return nil, strict.Fault{Path: fmt.Sprintf("targets[%d]", i),
			Message: err.Error() + "; allowed: http://host:port, also with https, h2c or h2"}
	}
	return t.answer(), nil
}
