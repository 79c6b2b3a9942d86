// Package storetest holds what every store must do, written once: the laws of
// the limiter through the store's own door, groups decided together, recorded
// histories, and a comparison of two stores by random histories.
package storetest
