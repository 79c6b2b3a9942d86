package service

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"weir/internal/strict"
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
