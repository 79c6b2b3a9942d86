package service

import (
	"net/http"

	"weir/internal/strict"
)

// AnswerBody is ReadBody for handlers that answer errors themselves.
func AnswerBody(w http.ResponseWriter, r *http.Request) (body []byte, ok bool) {
	body, err := ReadBody(w, r)
	if err != nil {
		WriteError(w, StatusOf(err), err)
	}
	return body, err == nil
}

// AnswerJSON is ReadJSON for handlers that answer errors themselves.
func AnswerJSON(w http.ResponseWriter, r *http.Request, into any) bool {
	body, ok := AnswerBody(w, r)
	if !ok {
		return false
	}
	if err := strict.Decode(body, into); err != nil {
		WriteError(w, http.StatusBadRequest, err)
		return false
	}
	return true
}
