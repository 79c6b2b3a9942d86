package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"weir/bench/lab/result"
	"weir/bench/lab/rig"
	"weir/bench/limits/postgres"
	"weir/bench/limits/scenario"
	"weir/bench/overload/protect"
	"weir/internal/program/service"
)

// order and protection hold the settings of scenario and protect.
var (
	order      scenario.Options
	protection protect.Options
)

func register(s *service.Settings) {
	order.Register(s)
	protection.Register(s)
}

func protectRun(l *rig.Lab, args []string) {
	protection.Dir = order.Dir
	protection.Run(l, args)
}

func postgresRun(l *rig.Lab, args []string) { postgres.Run(l, order.Dir, args) }

func main() {
	service.Main(service.Program{Name: "bench", LogName: "Bench",
		About: "experiments: " + strings.Join(names(func(e experiment) bool { return e.about != "" }), ", ") +
			"; exit status 1: failed, 3: inconclusive, as this machine was too busy for the load",
		Commands: names(func(experiment) bool { return true }),
		Settings: register, Run: run})
}

// names returns the names of the experiments of a kind.
func names(of func(e experiment) bool) (list []string) {
	for _, e := range experiments() {
		if of(e) {
			list = append(list, e.name)
		}
	}
	return list
}

func run(ctx context.Context, e *service.Env) error {
	if len(e.Args) == 0 {
		fmt.Fprint(os.Stderr, usage())
		return &service.ExitError{Status: 2}
	}
	name, args := e.Args[0], e.Args[1:] // package service has checked the name
	x := find(name)
	l := &rig.Lab{Report: &result.Report{Out: os.Stdout}} // the helpers of experiments have no record
	if x.about != "" {
		l.Report = result.NewReport(time.Now(), os.Stdout, name, args)
	}
	err := l.Run(ctx, func() { x.run(l, args) })
	if ctx.Err() != nil { // the experiment has ended what it started
		return &service.ExitError{Status: 130, Err: errors.New("interrupted")}
	}
	return err
}
