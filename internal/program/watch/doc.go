// Package watch reports when the content of files has changed.
//
// A change may come from an editor that writes into the file, from a rename, or from a symbolic
// link that is replaced, as Kubernetes does with the files of a ConfigMap. The name may be that
// of a directory, which stands for all files in it except hidden ones. The files need not exist.
//
// The files are checked about four times a second. A check costs one stat for each file, and for
// a directory a listing and one stat for each file in it. A file is read again when its stat has
// changed, or when its modification time is so recent that the file could change again without a
// change of that time. A change is reported when the next check finds the same content, because
// the writer may not have finished before. Changes of the stat alone are not reported, for
// example by touch, or when a file is replaced by an equal one. A change that a later one reverts
// is reported if a check has found it, because the file may have been read meanwhile.
//
// File system events (inotify) would report some changes sooner. They are not available for
// network file systems, for some container volumes, and for directories that do not exist yet, so
// the checks would be needed anyway.
package watch
