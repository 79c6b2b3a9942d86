package rig

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"weir/internal/timing/every"
)

// Experiments are scripts whose steps nearly all may fail, and every failure ends the part that
// is being played. So a failure is a panic that Catch turns into the error of the part. Code that
// runs in a goroutine of its own needs a Catch of its own, as Parallel and While do.

// A failure is the panic of Check.
type failure struct{ error }

// Check ends the current Catch with err, unless it is nil.
func Check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Must returns v, or ends the current Catch with err.
func Must[T any](v T, err error) T {
	Check(err)
	return v
}

// Catch calls fn and returns the error with which Check has ended it, or nil.
func Catch(fn func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failure:
			err = p.error
		default:
			panic(p)
		}
	}()
	fn()
	return nil
}

// Section calls fn as a part of the current Catch. If fn fails, name precedes its error.
func Section(name string, fn func()) {
	if err := Catch(fn); err != nil {
		Check(fmt.Errorf("%s: %w", name, err))
	}
}

// Parallel calls do for 0 to n-1 at the same time. If some fail, it ends the current Catch with
// the errors of all.
func Parallel(n int, do func(i int)) {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = Catch(func() { do(i) }) })
	}
	all.Wait()
	Check(errors.Join(errs...))
}

// While calls do once per pause while fn runs. An error of either ends the current Catch
// afterwards.
func While(pause time.Duration, do, fn func()) {
	over := make(chan struct{})
	Parallel(2, func(i int) {
		if i == 0 {
			every.Interval(over, pause, func(time.Time) { do() })
			return
		}
		defer close(over)
		fn()
	})
}

// ReadOptional reads a file; nil if there is none.
func ReadOptional(file string) []byte {
	text, err := os.ReadFile(file)
	if !errors.Is(err, fs.ErrNotExist) {
		Check(err)
	}
	return text
}
