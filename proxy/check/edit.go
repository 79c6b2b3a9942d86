package check

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"weir/internal/cycle"
	"weir/internal/http1"
	"weir/internal/strict"
)

// edit starts an edit of a key.
func (s *Session) edit(now time.Time) {
	e, fault := readEdit(s.body)
	if fault != nil {
		s.failAt(now, 400, fault.Message, fault.Path)
		return
	}
	e.turn = s.turn
	if !s.env.Edit(now, s, e) {
		s.fail(now, 503, "too many edits wait")
		return
	}
	s.cycle.Wait()
}

// readEdit parses an edit in JSON.
func readEdit(body []byte) (*Edit, *strict.Fault) {
	var asked struct {
		Rule string  `json:"rule"`
		Key  *string `json:"key"` // in base64
		Add  int64   `json:"add"`
	}
	if err := strict.Decode(body, &asked); err != nil {
		fault, _ := errors.AsType[strict.Fault](err)
		return nil, &fault
	}
	e := &Edit{Rule: asked.Rule, Add: asked.Add}
	var err error
	if asked.Key != nil {
		e.Key, err = base64.StdEncoding.DecodeString(*asked.Key)
	}
	switch {
	case e.Rule == "":
		return nil, &strict.Fault{Path: "rule", Message: "must not be empty"}
	case err != nil:
		return nil, &strict.Fault{Path: "key", Message: "must be base64"}
	case e.Add < 0:
		return nil, &strict.Fault{Path: "add", Message: fmt.Sprintf("must be at least 0, is %d", e.Add)}
	}
	return e, nil
}

// HandleLate ends an exchange whose edits take too long, and reports whether there is an
// answer to send. Later results of its edits are dropped.
func (s *Session) HandleLate(now time.Time) bool {
	if s.gone || s.cycle.State != cycle.Asked {
		return false
	}
	s.turn++
	s.waits = 0
	if s.route == routeJSON {
		s.undecided(now, 500, storeLate)
	} else {
		s.fail(now, 503, storeLate)
	}
	return true
}

const storeLate = "the rate limiter's store has not answered in time"

// HandleEdited handles the result of an edit: whether the key has changed, or why that is
// unknown. It reports whether there is an answer to send.
func (s *Session) HandleEdited(now time.Time, e *Edit, changed bool, err error) bool {
	switch {
	case s.gone || e.turn != s.turn:
		return false
	case s.route == routeJSON && err != nil:
		s.undecided(now, 500, err.Error())
		return true
	case s.route == routeJSON:
		s.giveBack(now)
		return s.cycle.State != cycle.Asked
	case err != nil:
		s.fail(now, 503, err.Error())
		return true
	}
	s.env.extra = s.env.extra[:0]
	s.writeJSON(now, `{"changed":`+strconv.FormatBool(changed)+"}\n")
	return true
}

// appendError appends the JSON body of an error.
func appendError(dst []byte, problem, path string) []byte {
	text, _ := json.Marshal(problem) // a string always can be encoded
	dst = append(append(dst, `{"error":`...), text...)
	if path != "" {
		dst = strconv.AppendQuote(append(dst, `,"path":`...), path)
	}
	return append(dst, "}\n"...)
}

func (s *Session) writeJSON(now time.Time, text string) {
	s.env.body = append(s.env.body[:0], text...)
	s.write(now, http1.Answer{Status: 200, ContentType: "application/json", Body: s.env.body})
}
