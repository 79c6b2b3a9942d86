package rig

import (
	"fmt"
	"strconv"
	"strings"

	"weir/internal/service"
)

// A Number is an optional numeric argument of an experiment.
type Number struct {
	What               string
	Usual, Least, Most int
}

// Read returns the number in args, or Usual if args is empty. Other arguments are a usage
// error.
func (n Number) Read(args []string) (int, error) {
	if len(args) == 0 {
		return n.Usual, nil
	}
	v, err := strconv.Atoi(args[0])
	if len(args) > 1 || err != nil || v < n.Least || v > n.Most {
		return 0, &service.ExitError{Status: 2, Err: fmt.Errorf("%s %q: allowed: a whole number from %d to %d", n.What, strings.Join(args, " "), n.Least, n.Most)}
	}
	return v, nil
}
