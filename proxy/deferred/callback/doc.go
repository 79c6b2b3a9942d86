// Package callback determines which URLs may be called back when a deferred request reaches its
// final state, which addresses their hosts may have, how callbacks are signed, and how many may
// be in flight to a receiver, the host of the URL. It sends nothing. Callbacks wait in a line
// for each receiver and client ([ReceiverKey]).
//
// Clients choose the URLs, and callbacks must not give them access to servers that only the
// proxy can reach. So hosts are listed by name, and the dialled address is checked as well,
// because the owner of a name can change its address.
package callback
