package watch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
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

// ReadFolder reads the files of a folder that are wanted by name, except hidden ones, such as
// those that Kubernetes keeps there: at most filesMax, each of at most bytesMax bytes. The error
// does not name the folder.
func ReadFolder(folder string, filesMax int, bytesMax int64, wanted func(name string) bool) (map[string][]byte, error) {
	list, err := os.ReadDir(folder)
	if err != nil {
		return nil, plainly(err)
	}
	files := make(map[string][]byte)
	for _, entry := range list {
		name := entry.Name()
		if strings.HasPrefix(name, ".") || !wanted(name) {
			continue
		}
		if len(files) == filesMax {
			return nil, fmt.Errorf("it has more than %d files", filesMax)
		}
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
