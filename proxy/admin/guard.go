package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"

	"weir/internal/service"
)

// Guard lets requests that change something through to h only with the token:
// Authorization: Bearer … (RFC 6750). Reading is free. An empty token guards
// nothing.
func Guard(token string, h http.Handler) http.Handler {
	if token == "" {
		return h
	}
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions {
			h.ServeHTTP(w, r)
			return
		}
		scheme, brought, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		// Sums of equal length, so that the time tells nothing.
		sum := sha256.Sum256([]byte(strings.TrimSpace(brought)))
		if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(sum[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Bearer realm="weir"`)
			service.WriteError(w, http.StatusUnauthorized, errors.New("this needs Authorization: Bearer and the token of ADMIN_TOKEN"))
			return
		}
		h.ServeHTTP(w, r)
	})
}
