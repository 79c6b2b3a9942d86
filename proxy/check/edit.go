package check

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"weir/internal/cycle"
	"weir/internal/http1"
)

// edit has a key edited.
func (s *Session) edit(now time.Time) {
	e := new(Edit)
	d := json.NewDecoder(bytes.NewReader(s.body))
	d.DisallowUnknownFields()
	if err := d.Decode(e); err != nil {
		path := ""
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			path = "byte " + strconv.FormatInt(syntax.Offset, 10)
		}
		s.failAt(now, 400, err.Error(), path)
		return
	}
	if e.Rule == "" || e.Add < 0 {
		s.failAt(now, 400, "a rule is missing, or the number to add is negative", "rule")
		return
	}
	e.turn = s.turn
	if !s.env.Edit(now, s, e) {
		s.fail(now, 503, "too many edits wait")
		return
	}
	s.cycle.Wait()
}

// HandleLate ends the wait of an exchange whose edits take too long, and reports whether
// there is an answer to send. What still comes of it is dropped.
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
// not known. It reports whether there is an answer to send.
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

// appendError appends the body of an error.
func appendError(dst []byte, problem, path string) []byte {
	text, _ := json.Marshal(problem) // a string always can be
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
