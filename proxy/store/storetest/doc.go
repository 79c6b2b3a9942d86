// Package storetest tests what every store must do: the properties of the limiter through
// the store's interface, groups decided together, recorded histories, and a comparison of
// two stores by random histories. A store also keeps documents, the configuration that
// proxies share, and leases, of which one proxy at a time holds each.
package storetest
