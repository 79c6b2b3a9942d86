// Package certs reads the certificates of TLS from files: the pair of a server,
// which is read again when the files change, and the authorities that a client
// trusts. It says which file is wrong and how.
package certs
