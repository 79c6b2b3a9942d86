// Package file keeps deferred requests in one local file, for one proxy. The file is a B+ tree of
// go.etcd.io/bbolt.
//
// One goroutine writes. It commits everything that has arrived meanwhile in one transaction, with
// two fdatasyncs, and only then calls Done. Memory has the part of each entry in a line that is
// needed to order the lines, about 200 bytes: one line for each key of a rule, and for each rule a
// heap of the lines that are due. Requests and answers stay on disk, and so do final entries.
//
// After a failed write it is unknown whether the last group was written, so the file is opened
// again, once a second, until a transaction succeeds. Then puts that were answered Unstored are
// removed, and settlements are written. A file with unreadable pages is replaced by a copy of
// everything that can be read, and kept as queue.damaged-1.
//
// Beside the file are queue.lock, which is never removed, and temporarily queue.new, which
// replaces it, and queue.try, which tests whether there is room on the disk.
package file
