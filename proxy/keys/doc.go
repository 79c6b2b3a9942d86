// Package keys says what of a request is counted apart: the parts of keys, how requests
// have them, and keys made of them.
package keys
