// Package watch reports when the content of files has changed.
//
// A change may come from an editor that writes into the file, from a rename, or from a
// symbolic link that is swapped, as Kubernetes does with the files of a ConfigMap. The
// name may be that of a folder, which stands for all files in it except hidden ones.
// Watching the file itself would miss all but the first kind, so its folder is watched
// (inotify or similar, through fsnotify), and any event there triggers a comparison of
// contents. What does not change them, such as touch or replacing a file by an equal one,
// is not reported.
//
// The files are also checked twice a second, because network file systems, some container
// volumes and folders that do not exist yet send no events. That costs one stat for each
// file; a file is read again when its stat has changed, or when it is so fresh that it
// could change again within the resolution of its time.
package watch
