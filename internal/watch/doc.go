// Package watch reports when the content of files has changed.
//
// What counts is what stands under the name: whether an editor wrote into the
// file, put another in its place by a rename, or swapped a symbolic link
// somewhere on the way to it, as Kubernetes does with the files of a ConfigMap.
// The name may be that of a folder: then it is all files in it, but for hidden ones.
// Watching the file itself would miss all but the first, so the kernel is asked
// about its folder (inotify and its like, by fsnotify), and anything that happens
// there is a reason to look. A look compares contents: what did not change them,
// such as touch or a file that is swapped for an equal one, is not told.
//
// Two times a second the files are looked at anyway, as network file systems, some
// container volumes and folders that are not there yet have no notices. That costs
// one stat for each file; a file is read again when its stat has changed, or when
// it is so fresh that it could change again within the resolution of its time.
package watch
