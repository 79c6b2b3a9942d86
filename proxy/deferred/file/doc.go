// Package file keeps deferred requests in one local file, for one proxy. The file is a B+ tree of
// go.etcd.io/bbolt.
//
// One goroutine writes. It commits everything that has arrived meanwhile in one transaction, with
// two fdatasyncs, and only then calls Done. In memory is only the part of each entry in a line
// that is needed to order the lines, about 200 bytes. There is one line for each key of a rule,
// and for each rule a heap of the lines that are due. Requests, answers and final entries stay on
// disk.
//
// After a failed write it is unknown whether the last group was written, so the file is opened
// again, once a second, until a transaction succeeds. Then puts that were answered Unstored are
// removed, and settlements are written. A file with unreadable pages is replaced by a copy of
// everything that can be read, and kept as queue.damaged-1.
//
// The same directory contains queue.lock, which is never removed, and temporarily queue.new,
// which replaces the file, and queue.try, which tests whether there is room on the disk.
package file
