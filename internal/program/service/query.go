package service

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"weir/internal/data/strict"
)

// checkQuery returns h for requests with allowed parameters; others get 400.
func (e Endpoint) checkQuery(h http.HandlerFunc) http.HandlerFunc {
	if e.Query == "*" {
		return h
	}
	return func(w http.ResponseWriter, r *http.Request) {
		if err := e.queryFault(r.URL.RawQuery); err != nil {
			WriteError(w, http.StatusBadRequest, err)
			return
		}
		h(w, r)
	}
}

// queryFault reports what is wrong with the parameters, or nil.
func (e Endpoint) queryFault(raw string) error {
	if raw == "" {
		return nil
	}
	given, err := url.ParseQuery(raw)
	if err != nil {
		return errors.New("the query cannot be read: " + err.Error())
	}
	allowed := strings.Fields(e.Query)
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if slices.Contains(allowed, name) {
			continue
		}
		message := fmt.Sprintf("%q is not a parameter of %s, which has none", name, e.Pattern)
		if len(allowed) > 0 {
			message = fmt.Sprintf("%q is not a parameter of %s; allowed: %s", name, e.Pattern, strings.Join(allowed, ", "))
		}
		return strict.Fault{Path: name, Message: message}
	}
	return nil
}

// IntQuery returns a parameter of the query, a number from 1 to most, or def without it.
func IntQuery(r *http.Request, name string, def, most int) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return def, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, strict.Fault{Path: name, Message: fmt.Sprintf("must be a whole number from 1 to %d, is %q", most, text)}
	}
	return n, nil
}
