package watch

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
)

// ReadFile reads a file, at most bytesMax bytes of it: whoever reads them
// refuses what is larger. What is no regular file is not opened: a pipe without a writer
// would never be read. The error does not name the file.
func ReadFile(name string, bytesMax int64) ([]byte, error) {
	stat, err := os.Stat(name)
	if err != nil {
		return nil, Plainly(err)
	}
	if !stat.Mode().IsRegular() {
		return nil, errors.New("it is no regular file")
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, Plainly(err)
	}
	defer f.Close()
	text := bytes.NewBuffer(make([]byte, 0, min(stat.Size(), bytesMax)+bytes.MinRead))
	if _, err := text.ReadFrom(io.LimitReader(f, bytesMax)); err != nil {
		return nil, Plainly(err)
	}
	return text.Bytes(), nil
}

// Plainly is the cause without the file's name, which is told beside it.
func Plainly(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
