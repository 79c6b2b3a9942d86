// Package terms defines which refused requests rules store for later delivery, how long
// they may wait, and the outcome of each attempt to deliver one.
package terms
