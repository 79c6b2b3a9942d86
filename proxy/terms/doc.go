// Package terms is what rules say about refused requests that are kept and delivered
// later: which are, how long they may wait, and what comes of each attempt to deliver one.
package terms
