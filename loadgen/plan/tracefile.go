package plan

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"weir/internal/data/strict"
	"weir/loadgen/profile"
)

// traceBytesMax bounds a trace, uncompressed.
const traceBytesMax = 4 << 30

// zstdWindowMax bounds the memory that a compressed trace may ask for.
const zstdWindowMax = 128 << 20

// traceParams are the parameters of a trace.
type traceParams struct {
	File     string  `json:"file"`
	ScaleRps float64 `json:"scaleRps"`
	Speedup  float64 `json:"speedup"`
}

// trace reads the parameters of a trace, and its file.
func (b *builder) trace(raw *ProfileConfig, length time.Duration) (*profile.Profile, error) {
	w := traceParams{ScaleRps: 1, Speedup: 1}
	if !decode(b, raw, &w, "file", "speedup", "scaleRps") {
		return nil, nil
	}
	const path = "profile.params.file"
	if w.File == "" {
		b.Fault(path, missing)
		return nil, nil
	}
	t, err := readTrace(w.File, b.folder)
	if err != nil {
		b.Fault(path, "%v", err)
		return nil, nil
	}
	p, last, err := profile.NewTrace(t, profile.TraceOptions{Speedup: w.Speedup, ScaleRps: w.ScaleRps, Name: w.File})
	if err == nil && last < length {
		b.warn("the trace lasts %g s, the test %g s: nothing is sent after its end", last.Seconds(), length.Seconds())
	}
	if _, ok := errors.AsType[strict.Faults](err); err != nil && !ok {
		b.Fault(path, "%s: %v", w.File, err)
		return nil, nil
	}
	return p, err
}

// readTrace reads the named trace: an absolute path, or one relative to folder, or to the
// working directory if there is no folder.
func readTrace(name, folder string) (*profile.Trace, error) {
	path := name
	if folder != "" && !filepath.IsAbs(name) {
		if !filepath.IsLocal(name) {
			return nil, fmt.Errorf("must be the path of a file within CONFIG_DIR, or an absolute one, is %q", name)
		}
		path = filepath.Join(folder, name)
	}
	// Other than plain files might block, or never end.
	if info, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("read trace: %w", err)
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read trace %s: is not a plain file", name)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read trace: %w", err)
	}
	defer f.Close()
	text, err := uncompressed(f)
	if err != nil {
		return nil, fmt.Errorf("read trace %s: %w", name, err)
	}
	defer text.Close()
	t, err := bounded(text, traceBytesMax)
	if err != nil {
		return nil, fmt.Errorf("read trace %s: %w", name, err)
	}
	return t, nil
}

// bounded reads a trace of at most the given number of bytes.
func bounded(text io.Reader, most int64) (*profile.Trace, error) {
	in := io.LimitedReader{R: text, N: most + 1}
	t, err := profile.ReadTrace(&in)
	if in.N == 0 {
		return nil, fmt.Errorf("it is larger than %d bytes", most)
	}
	return t, err
}

// uncompressed returns the content of r, which may be compressed with gzip or zstd. The
// first bytes tell (RFC 1952 2.3.1, RFC 8878 3.1.1).
func uncompressed(r io.Reader) (io.ReadCloser, error) {
	in := bufio.NewReader(r)
	head, err := in.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return gzip.NewReader(in)
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		d, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdWindowMax))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}
	return io.NopCloser(in), nil
}
