// Package watch reports when the content of files has changed.
//
// A change may come from an editor that writes into the file, from a rename, or from a
// symbolic link that is swapped, as Kubernetes does with the files of a ConfigMap. The
// name may be that of a folder, which stands for all files in it except hidden ones. The
// files need not exist.
//
// The files are checked about four times a second. That costs one stat for each file, and for
// a folder a listing and one stat for each file in it. A file is read again when its stat has
// changed, or when it is so fresh that it could change again within the resolution of its
// time. A change is reported when the next check finds the same content, because the writer
// may not have finished before. Changes of the stat alone, by touch or by replacing a file by
// an equal one, are not reported. A change that a later one takes back is reported if a check
// has found it: the file may have been read meanwhile.
//
// Events of the file system (inotify) would report some changes sooner, but they do not come
// from network file systems, some container volumes and folders that do not exist yet, so
// the checks would be needed anyway.
package watch
