package store

import "fmt"

// A MisconfigCause is what an operator must change before a store can be used. Waiting does not help,
// unlike with a store that is starting, recovering, read-only or out of connections.
type MisconfigCause uint8

const (
	Unauthenticated MisconfigCause = iota + 1 // the store does not know the user, or the password is wrong
	Unauthorized                              // the user lacks a right
	NoDatabase                                // there is no such database
	NoSchema                                  // tables or functions in it are missing, or of another version
	WrongProtocol                             // another kind of program answers
	Untrusted                                 // tables or functions belong to another user
)

// String returns the sentence used in logs and messages.
func (c MisconfigCause) String() string {
	return [...]string{
		Unauthenticated: "the store does not accept the user or the password",
		Unauthorized:    "the user lacks a right",
		NoDatabase:      "there is no such database",
		NoSchema:        "tables or functions are missing, or of another version",
		WrongProtocol:   "the server is not the kind of store that the settings describe",
		Untrusted:       "tables or functions belong to a role that could misuse them",
	}[c]
}

// A MisconfiguredError reports that a store cannot be used until its configuration or the proxy's
// is changed. Each store detects this itself.
type MisconfiguredError struct {
	Cause MisconfigCause
	Err   error // the store's error
}

// Error returns the cause and the store's error.
func (e *MisconfiguredError) Error() string { return fmt.Sprintf("%v: %v", e.Cause, e.Err) }

// Unwrap returns the store's error.
func (e *MisconfiguredError) Unwrap() error { return e.Err }
