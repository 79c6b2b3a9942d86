package config

import (
	"errors"
	"strconv"

	"weir/internal/service"
	"weir/proxy/refusal"
)

// Refusal is the settings that say what refusals look like.
type Refusal struct {
	Templates string // REFUSAL_TEMPLATES; empty: none
	status    int
	fields    []byte
}

// register adds the settings to s.
func (r *Refusal) register(s *service.Settings) {
	s.Word("REFUSAL_STATUS", "429", []string{"429", "503"}, "the status of a refusal by a limit whose rule names none",
		func(word string) (err error) { r.status, err = strconv.Atoi(word); return err })
	s.String(&r.Templates, "REFUSAL_TEMPLATES", "", "folder of the bodies of refusals (429, and 503 of the proxy): default.html, default.json, default.txt, and NAME.html … for rules with refusal: {template: NAME}; "+
		"the client's Accept chooses; read again at SIGHUP; empty: a page for browsers, JSON for all others")
	s.Func("REFUSAL_FIELDS", "", "fields of refusals whose rule has none", "Name: value, more of them behind |; none that the proxy sets itself", r.setFields)
}

func (r *Refusal) setFields(text string) (err error) {
	if r.fields, err = refusal.ParseFields(text); err != nil {
		return errors.New("cannot be used: " + err.Error())
	}
	return nil
}
