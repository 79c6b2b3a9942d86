package watch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ReadFile reads a file of at most bytesMax bytes. Only regular files are opened: reading a
// pipe without a writer would block. The error does not name the file.
func ReadFile(name string, bytesMax int64) ([]byte, error) {
	stat, err := os.Stat(name)
	if err != nil {
		return nil, plainly(err)
	}
	if !stat.Mode().IsRegular() {
		return nil, errors.New("is not a regular file")
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, plainly(err)
	}
	defer f.Close()
	text := bytes.NewBuffer(make([]byte, 0, min(stat.Size(), bytesMax)+bytes.MinRead))
	n, err := text.ReadFrom(io.LimitReader(f, bytesMax+1))
	switch {
	case err != nil:
		return nil, plainly(err)
	case n > bytesMax:
		return nil, fmt.Errorf("is larger than %d bytes", bytesMax)
	}
	return text.Bytes(), nil
}

// ReadFolder reads the files of a directory whose names wanted accepts, each of at most bytesMax bytes.
// Hidden files are skipped, because Kubernetes keeps its own data in them. More than filesMax files are
// an error. Errors name the file, not the directory.
func ReadFolder(folder string, filesMax int, bytesMax int64, wanted func(name string) bool) (map[string][]byte, error) {
	list, err := os.ReadDir(folder)
	if err != nil {
		return nil, plainly(err)
	}
	list = slices.DeleteFunc(list, func(e os.DirEntry) bool {
		return strings.HasPrefix(e.Name(), ".") ||
			!wanted(e.Name())
	})
	if len(list) > filesMax {
		return nil, fmt.Errorf("it has %d files, at most %d are read", len(list), filesMax)
	}
	files := make(map[string][]byte)
	for _, entry := range list {
		name := entry.Name()
		if files[name], err = ReadFile(filepath.Join(folder, name), bytesMax); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return files, nil
}

// plainly returns the cause of err without the name of the file, for messages that name it.
func plainly(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
