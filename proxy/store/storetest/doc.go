// Package storetest tests what every store must do: the properties of the limiter through
// the store's interface, groups decided together, recorded histories, and a comparison of
// two stores by random histories.
package storetest
