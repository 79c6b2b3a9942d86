//go:build race

package gate_test

func init() { seeds, many = 1, 1 }
