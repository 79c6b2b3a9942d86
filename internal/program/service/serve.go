package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Bounds for clients of Serve. There is no timeout for answers: a page or a profile may
// be long.
const (
	headTimeout  = 10 * time.Second
	bodyTimeout  = time.Minute
	idleTimeout  = 2 * time.Minute
	drainTimeout = 10 * time.Second
	headBytesMax = 64 << 10
)

// Serve answers HTTP on l with h until ctx ends, and then waits up to 10 s for answers in
// progress. It is for programs, and for ports, that need no event loop. The caller
// handles readiness. l is closed when Serve returns.
func Serve(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger) error {
	server := &http.Server{
		Handler: h, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		ReadHeaderTimeout: headTimeout, ReadTimeout: bodyTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: headBytesMax,
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	err := server.Shutdown(grace)
	<-ended // with ErrServerClosed, since Shutdown has begun
	if errors.Is(err, context.DeadlineExceeded) {
		return server.Close() // closes what has not ended; being asked to stop is not an error
	}
	return err
}
