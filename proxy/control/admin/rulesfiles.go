package admin

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"weir/internal/data/strict"
	"weir/internal/program/service"
	"weir/internal/program/watch"
	"weir/proxy/rules/keys"
	"weir/proxy/rules/rule"
)

// A fileError says what is wrong with one of the files.
type fileError struct {
	name  string // name of the setting
	file  string
	cause error
}

// Error names the setting, the file, and the position of the fault.
func (e *fileError) Error() string { return fmt.Sprintf("%s: %s: %v", e.name, e.file, e.cause) }

// Unwrap returns the cause, which is a strict.Faults if the file could be read.
func (e *fileError) Unwrap() error { return e.cause }

// setting returns the error that prevents the program from starting.
func (e *fileError) setting() error {
	problem := "cannot be read: "
	if faultsOf(e.cause) != nil {
		problem = "is invalid: "
	}
	return &service.SettingError{Name: e.name, Value: e.file, Problem: problem + e.cause.Error()}
}

// Reload reads files and store again. The error says what is wrong with a file, or is
// ErrUnavailable, or says why the document is unreadable; the affected part stays in force. The
// caller must report it.
func (r *Rules) Reload(now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.returned = ""
	_, err := r.rereadFiles(now)
	if err != nil {
		r.returned = err.Error()
	}
	if r.docs != nil {
		err = errors.Join(err, r.reload(now))
	}
	return err
}

// refresh reads the files again, and logs what is wrong with them, unless Reload has just
// returned it.
func (r *Rules) refresh(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed, err := r.rereadFiles(now)
	if err != nil && err.Error() != r.returned {
		r.logFault(err)
	}
	r.returned = ""
	if changed && r.situation.in(situationsUnreadable) {
		_ = r.reload(now) // already logged; with other clients the document may be readable
	}
}

// rereadFiles calls readFiles for rules that are in force. The error is a *fileError.
func (r *Rules) rereadFiles(now time.Time) (changed bool, err error) {
	changed, e := r.readFiles(now)
	before := r.fileIgnored.Swap(e)
	if e != nil {
		return changed, e
	}
	if before != nil && !changed { // or the error would be the last that the log says
		r.log.Info("File no longer ignored, its content is in force", "setting", before.name, "file", before.file)
	}
	return changed, nil
}

// logFault logs what is wrong with a file, if err is about a file.
func (r *Rules) logFault(err error) {
	if e, ok := errors.AsType[*fileError](err); ok {
		r.log.Error("File ignored, the previous rules stay in force", "setting", e.name, "file", e.file, "reason", e.cause)
	}
}

// readFiles reads both files, and puts their content in force if it is valid and new. The
// caller holds mu, or r is not shared yet.
func (r *Rules) readFiles(now time.Time) (changed bool, fault *fileError) {
	text, clients, sum := r.text, r.clients, r.sum
	if r.files.Rules != "" {
		var err error
		if text, err = watch.ReadFile(r.files.Rules, fileMax); err != nil {
			return false, &fileError{"RULES_FILE", r.files.Rules, err}
		}
	}
	if r.files.Clients != "" {
		body, err := watch.ReadFile(r.files.Clients, fileMax)
		if err != nil {
			return false, &fileError{"CLIENTS_FILE", r.files.Clients, err}
		}
		if sum = sha256.Sum256(body); sum != r.sum {
			if clients, err = rule.ReadClients(body, r.clientKeys(text)...); err != nil {
				return false, &fileError{"CLIENTS_FILE", r.files.Clients, err}
			}
		}
	}
	if r.Active().Set != nil && sum == r.sum && bytes.Equal(text, r.text) || r.files.Rules == "" && r.files.Clients == "" {
		return false, nil
	}
	var unknown func(strict.Fault)
	if r.files.Rules == "" {
		unknown = func(strict.Fault) {} // of the store's rules: logged when they were read
	}
	set, err := r.compose(text, clients, unknown)
	if err != nil {
		return false, r.blame(text, err)
	}
	if clients != r.clients {
		r.warnOf(clients.Notes(), "Parts of the client file have no effect", "file", r.files.Clients)
	}
	r.clients, r.sum = clients, sum
	next := *r.Active()
	next.Set = set
	if r.files.Rules != "" {
		next.Source, next.UpdatedAt = SourceFile, now
	}
	r.enforce(text, next)
	return true, nil
}

// clientKeys returns the parts that may name clients in the rules of text.
func (r *Rules) clientKeys(text []byte) []keys.Part {
	keys := []keys.Part{r.files.Options.ClientKey}
	if set, err := r.compose(text, nil, func(strict.Fault) {}); err == nil {
		keys = append(keys, set.ClientKeys()...)
	}
	return keys
}

// blame determines which file is at fault if rules and clients do not make a set. The
// rules' own faults have lines. For rules from the store the clients are at fault,
// because the rules alone were valid.
func (r *Rules) blame(text []byte, err error) *fileError {
	if r.files.Rules == "" {
		return &fileError{"CLIENTS_FILE", r.files.Clients, err}
	}
	if _, alone := r.compose(text, nil, nil); alone == nil {
		return &fileError{"CLIENTS_FILE", r.files.Clients, fmt.Errorf("does not match the rules of %s: %w", r.files.Rules,
			err)}
	}
	return &fileError{"RULES_FILE", r.files.Rules, err}
}

// fileMax bounds a file of rules or clients, in bytes. Package rule has bounds of its own.
const fileMax = 1 << 30
