// Package callback says which URLs may be called back when a deferred request has its final
// state, which addresses their hosts may have, and how what is sent is signed. It sends nothing.
//
// Clients choose the URLs, and the proxy stands where they may not: callbacks must not reach what
// only the proxy can. So hosts are listed by name, and the address that is dialled is checked as
// well, because whoever has a name decides where it leads.
package callback
