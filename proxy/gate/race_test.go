//go:build race

package gate_test

func init() { seeds = 1 }
