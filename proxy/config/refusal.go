package config

import (
	"errors"
	"strconv"

	"weir/internal/service"
	"weir/proxy/decide"
	"weir/proxy/refusal"
)

// Refusal has the settings of what refusals look like.
type Refusal struct {
	Templates string // REFUSAL_TEMPLATES; empty: none
}

// register adds the settings to s.
func (r *Refusal) register(s *service.Settings, style *decide.Style) {
	s.Word("REFUSAL_STATUS", "429", []string{"429", "503"}, "status of refusals by a limit, unless the rule sets one",
		func(word string) (err error) { style.Status, err = strconv.Atoi(word); return err })
	s.String(&r.Templates, "REFUSAL_TEMPLATES", "", "folder with templates for the bodies of refusals (429, and 503 of the proxy): default.html, default.json, default.txt, and NAME.html … for rules with refusal: {template: NAME}; "+
		"the client's Accept selects one; read again at SIGHUP; empty: a page for browsers, JSON for others")
	s.Func("REFUSAL_FIELDS", "", "fields of refusals, unless the rule sets some", "Name: value, separated by |; none that the proxy sets itself", func(text string) (err error) {
		if style.Fields, err = refusal.ParseFields(text); err != nil {
			return errors.New("cannot be used: " + err.Error())
		}
		return nil
	})
}
