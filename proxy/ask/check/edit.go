package check

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"time"

	"weir/internal/data/strict"
	"weir/internal/net/cycle"
	"weir/internal/net/http1"
)

func (s *Session) edit(now time.Time) {
	e, err := readEdit(s.body)
	if err != nil {
		s.faulty(now, err)
		return
	}
	if !s.startEdit(now, e) {
		s.fail(now, 503, "too many edits are waiting")
	}
}

// startEdit starts an edit of the exchange, which ends at the latest EditTimeout after its first one. It reports
// false if too many edits wait.
func (s *Session) startEdit(now time.Time, e *Edit) bool {
	s.late = cycle.Earlier(s.late, now.Add(s.env.EditTimeout)) // a later edit does not postpone it
	e.turn, e.Until, e.From = s.turn, s.late, s.remote
	if !s.env.Edit(now, s, e) {
		return false
	}
	s.editing = true
	s.wait()
	return true
}

// readEdit parses an edit in JSON. The error is a [strict.Fault].
func readEdit(body []byte) (*Edit, error) {
	var asked struct {
		Rule string  `json:"rule"`
		Key  *string `json:"key"` // in base64
		Add  int64   `json:"add"`
	}
	if err := strict.Decode(body, &asked); err != nil {
		return nil, err
	}
	e := &Edit{Rule: asked.Rule, Add: asked.Add, Sidecar: true}
	var err error
	if asked.Key != nil {
		e.Key, err = base64.StdEncoding.DecodeString(*asked.Key)
	}
	switch {
	case e.Rule == "":
		return nil, strict.Fault{Path: "rule", Message: "must not be empty"}
	case err != nil:
		return nil, strict.Fault{Path: "key", Message: "must be base64"}
	case e.Add < 0:
		return nil, strict.Fault{Path: "add", Message: fmt.Sprintf("must be at least 0, is %d", e.Add)}
	}
	return e, nil
}

// handleLate ends an exchange that has waited too long.
func (s *Session) handleLate(now time.Time) {
	const problem = "the rate limiter's store has not answered in time"
	s.forgetAsked()
	switch {
	case s.limited == nil:
		s.fail(now, 503, problem)
	case s.call.reached(now):
		s.undecided(now, 504, problem)
	default:
		s.undecided(now, 500, problem)
	}
}

// forgetAsked forgets the asks and edits of the exchange: their later results change nothing.
func (s *Session) forgetAsked() {
	s.turn++
	s.stale += s.waits
	if s.editing {
		s.stale++
	}
	s.waits, s.editing = 0, false
}

// ErrEditExpired is the error of an edit that was not begun before Until.
var ErrEditExpired = errors.New("the edit was not begun in time")

// HandleEdited handles the result of an edit: whether the key has changed, or why that is unknown. It is called once
// for each edit, and reports whether there is an answer to send.
func (s *Session) HandleEdited(now time.Time, e *Edit, changed bool, err error) bool {
	if e.turn != s.turn {
		s.answeredStale()
		return false
	}
	s.editing = false
	switch {
	case err == ErrEditExpired: // HandleExpired answers
		return false
	case s.limited != nil && err != nil:
		s.undecided(now, 500, err.Error())
		return true
	case s.limited != nil:
		s.giveBack(now)
		return s.cycle.State != cycle.AwaitingResponse
	case err != nil:
		s.fail(now, 503, err.Error())
		return true
	}
	body := `{"changed":` + strconv.FormatBool(changed) + "}\n"
	s.write(now, http1.LocalResponse{Status: 200, ContentType: "application/json", Body: []byte(body)})
	return true
}
