// Package xds gets the limits of Envoy's rate limit service from an xDS management server, as
// envoyproxy/ratelimit does with CONFIG_TYPE=GRPC_XDS_SOTW.
//
// One stream of the aggregated discovery service in its variant "state of the world" subscribes to all
// resources of one type. Each response has all of them. It is acknowledged when they are in force (ACK).
// Otherwise it is refused with the fault (NACK), and the previous ones stay in force. The refusal is sent
// after a wait, since servers answer it at once with the same resources. When the stream ends, or the
// server sends nothing at first, the client waits and opens another one.
//
// The stream is one call of gRPC on net/http's HTTP/2, with messages in protobuf's binary form:
// google.golang.org/grpc and Envoy's types would nearly double the size of the program.
package xds
