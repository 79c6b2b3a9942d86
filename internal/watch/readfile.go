package watch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// ReadFile reads a file of at most bytesMax bytes. Only regular files are opened: reading a
// pipe without a writer would block. The error does not name the file.
func ReadFile(name string, bytesMax int64) ([]byte, error) {
	stat, err := os.Stat(name)
	if err != nil {
		return nil, Plainly(err)
	}
	if !stat.Mode().IsRegular() {
		return nil, errors.New("is not a regular file")
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, Plainly(err)
	}
	defer f.Close()
	text := bytes.NewBuffer(make([]byte, 0, min(stat.Size(), bytesMax)+bytes.MinRead))
	n, err := text.ReadFrom(io.LimitReader(f, bytesMax+1))
	switch {
	case err != nil:
		return nil, Plainly(err)
	case n > bytesMax:
		return nil, fmt.Errorf("is larger than %d bytes", bytesMax)
	}
	return text.Bytes(), nil
}

// Plainly returns the cause of err without the name of the file, for messages that name it.
func Plainly(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
