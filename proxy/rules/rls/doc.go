// Package rls defines the messages of Envoy's rate limit service, version 3, as plain
// values, their JSON form and their binary form.
//
// The messages are those of envoy/service/ratelimit/v3/rls.proto. [Request.Read] accepts
// what protojson accepts, and [AppendResponse] writes what protojson writes, in the order
// of the field numbers. [Request.ReadProto] and [AppendProto] do the same for the binary form
// that gRPC uses. Messages are independent of their encoding.
//
// Parsed values borrow from the text, and both directions reuse memory.
package rls
