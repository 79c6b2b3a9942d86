// Package certs reads TLS certificates from files: the certificate and key of a server,
// which are reloaded when the files change, and the certificate authorities that a client
// trusts. Errors name the file and what is wrong with it.
package certs
