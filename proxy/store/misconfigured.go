package store

import "fmt"

// A Cause says what a person has to change before a store can be used. Waiting does
// not help, unlike with a store that is starting, recovering, read only or full of
// connections.
type Cause uint8

const (
	Unauthenticated Cause = iota + 1 // the store does not know the user, or the password is wrong
	Unauthorized                     // the user lacks a right
	NoDatabase                       // there is no such database
	NoSchema                         // tables or functions in it are missing, or of another version
	WrongProtocol                    // what answers is another kind of program
)

// String returns the sentence that logs and messages have.
func (c Cause) String() string {
	switch c {
	case Unauthenticated:
		return "the store does not accept the user or the password"
	case Unauthorized:
		return "the user lacks a right"
	case NoDatabase:
		return "there is no such database"
	case NoSchema:
		return "tables or functions are missing, or of another version"
	}
	return "what answers is not the store that the settings describe"
}

// A MisconfiguredError says that a store cannot be used until somebody changes its
// configuration or ours. Each store recognises its own.
type MisconfiguredError struct {
	Cause Cause
	Err   error // what the store said
}

// Error returns the cause and what the store said.
func (e *MisconfiguredError) Error() string { return fmt.Sprintf("%v: %v", e.Cause, e.Err) }

// Unwrap returns what the store said.
func (e *MisconfiguredError) Unwrap() error { return e.Err }
