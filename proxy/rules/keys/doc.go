// Package keys determines what is counted separately: the parts of keys, their values in
// requests, and the keys made from them.
package keys
