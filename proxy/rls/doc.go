// Package rls is the messages of Envoy's rate limit service, version 3, as plain values,
// and their JSON form.
//
// The messages are those of envoy/service/ratelimit/v3/rls.proto. [Request.Read] takes
// what protojson takes, and [AppendResponse] writes what protojson writes, in the order of
// the fields' numbers. A message does not know in which form it came, so that the binary
// form is one more pair of functions.
//
// What is read is borrowed from the text, and both directions use their memory again.
package rls
