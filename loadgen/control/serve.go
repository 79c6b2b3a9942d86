package control

import (
	"context"
	"fmt"
	"net"

	"weir/internal/service"
	"weir/loadgen/plan"
)

// Serve answers REST until ctx ends, then stops the current run. If file is not empty,
// its test is started at once.
func (r *Runs) Serve(ctx context.Context, e *service.Env, file string) error {
	l, err := net.Listen("tcp", e.Addr)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", e.Addr, err)
	}
	if file != "" {
		if err := r.startFile(file); err != nil {
			l.Close()
			return err
		}
	}
	own := service.NewEndpoints(e)
	r.Register(own)
	e.Health.Component("test", r.Health)
	e.Health.SetReady(true)
	e.Logger("LoadGenerator").Info("Listening", "address", l.Addr().String())

	defer r.Close()                 // also waits until the test is over
	context.AfterFunc(ctx, r.Close) // while the last answers are sent
	return service.Serve(ctx, l, own, e.Logger("HttpServer"))
}

// startFile starts the test of a configuration file. An invalid file ends the program
// with status 2.
func (r *Runs) startFile(file string) error {
	data, err := plan.ReadConfig(file)
	if err != nil {
		return &service.ExitError{Status: exitConfig, Err: err}
	}
	if _, err = r.Start(data); err == nil {
		return nil
	}
	err = fmt.Errorf("%s: %w", file, err)
	if wrongConfig(err) {
		return &service.ExitError{Status: exitConfig, Err: err}
	}
	return err
}
