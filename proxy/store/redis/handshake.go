package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"weir/proxy/store"
)

// dialTLS connects with TLS. A server without TLS often does not answer the handshake; the
// error distinguishes that from a server that cannot be reached.
func dialTLS(ctx context.Context, addr string, dialer *net.Dialer, secure *tls.Config) (net.Conn, error) {
	conn, err := (&tls.Dialer{NetDialer: dialer, Config: secure}).DialContext(ctx, "tcp", addr)
	if err == nil {
		return conn, nil
	}
	op, known := errors.AsType[*net.OpError](err)
	_, spoken := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case known && op.Op == "dial":
		return nil, err
	case spoken:
		return nil, wrong(store.WrongProtocol, "%s speaks without TLS (REDIS_TLS): %w", addr, err)
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("%s did not answer the TLS handshake within %v: if it has no TLS, set REDIS_TLS=false: %w", addr, dialer.Timeout, err)
	}
	return nil, fmt.Errorf("TLS handshake with %s: %w", addr, err)
}
