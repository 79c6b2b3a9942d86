// Package file keeps deferred requests in one file of this machine, for one proxy. The file is
// a B+ tree of go.etcd.io/bbolt.
//
// One goroutine writes. It takes what has come meanwhile as one group and commits it in one
// transaction: two fdatasyncs for all of it. Only then Done is called. Memory has of each
// entry in a line what is needed to order the lines; requests and answers stay on disk, and
// so do final entries.
//
// After a write has failed nothing is known about the last group, so the file is opened
// again, once a second, until a transaction succeeds. What was answered Unstored is taken out
// of it, and settlements are written. A file with pages that cannot be read is replaced by
// one that has all that can be read, and kept aside as queue.damaged-1.
//
// Beside the file are queue.lock, which is never removed, and for moments queue.new, which
// replaces it, and queue.try, which finds out whether there is room.
package file
