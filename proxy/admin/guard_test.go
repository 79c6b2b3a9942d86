package admin

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// What changes something needs the token; reading does not.
func TestGuard(t *testing.T) {
	const token = "s3cr3t token"
	reached := 0
	h := Guard(token, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ }))
	for _, test := range []struct {
		method string
		fields []string // Authorization
		passes bool
	}{
		{"GET", nil, true},
		{"HEAD", nil, true},
		{"OPTIONS", nil, true},
		{"POST", []string{"Bearer s3cr3t token"}, true},
		{"PUT", []string{"bearer   s3cr3t token "}, true}, // RFC 9110 section 11.1: the scheme in any case
		{"DELETE", []string{"BEARER s3cr3t token"}, true},
		{"POST", nil, false},
		{"PUT", nil, false},
		{"PATCH", nil, false},
		{"DELETE", nil, false},
		{"BREW", nil, false},
		{"get", nil, false}, // methods are told apart by case
		{"POST", []string{""}, false},
		{"POST", []string{"Bearer"}, false},
		{"POST", []string{"Bearer "}, false},
		{"POST", []string{"s3cr3t token"}, false},
		{"POST", []string{"Bearer s3cr3t"}, false},
		{"POST", []string{"Bearer s3cr3t token2"}, false},
		{"POST", []string{"Bearer S3CR3T TOKEN"}, false},
		{"POST", []string{"Basic s3cr3t token"}, false},
		{"POST", []string{"Bearer wrong", "Bearer s3cr3t token"}, false},
	} {
		before := reached
		r := httptest.NewRequest(test.method, "/config/limits", nil)
		r.Header["Authorization"] = test.fields
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if passed := reached > before; passed != test.passes {
			t.Errorf("%s with Authorization %q is let through: %t, want %t", test.method, test.fields, passed, test.passes)
		}
		if test.passes {
			continue
		}
		if challenge := w.Header().Get("WWW-Authenticate"); w.Code != http.StatusUnauthorized || !strings.HasPrefix(challenge, "Bearer ") {
			t.Errorf("%s with Authorization %q: %d, WWW-Authenticate %q", test.method, test.fields, w.Code, challenge)
		}
		if body := w.Body.String(); !strings.Contains(body, "ADMIN_TOKEN") || strings.Contains(body, token) {
			t.Errorf("told %q", body)
		}
	}
}

// Without a token nothing is guarded.
func TestGuardWithoutToken(t *testing.T) {
	reached := 0
	h := Guard("", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ }))
	for _, method := range []string{"GET", "POST", "DELETE"} {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(method, "/", nil))
	}
	if reached != 3 {
		t.Errorf("%d of 3 requests were let through", reached)
	}
}
