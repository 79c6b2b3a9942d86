// Package rls defines the messages of Envoy's rate limit service, version 3, as plain
// values, and their JSON form.
//
// The messages are those of envoy/service/ratelimit/v3/rls.proto. [Request.Read] accepts
// what protojson accepts, and [AppendResponse] writes what protojson writes, in the order
// of the field numbers. Messages are independent of their encoding, so the binary form
// would be another pair of functions.
//
// Parsed values borrow from the text, and both directions reuse memory.
package rls
