package plan

import (
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"weir/internal/data/strict"
	"weir/loadgen/pace"
)

// A Config is a test configuration in the form in which users write it. A Plan has it with
// all defaults filled in.
//
// Immutable after Parse.
type Config struct {
	LimiterURL     string            `json:"limiterUrl"`
	Duration       float64           `json:"duration"` // seconds
	Profile        ProfileConfig     `json:"profile"`
	Protocol       string            `json:"protocol"`
	Concurrency    int               `json:"concurrency"`
	Streams        int               `json:"streams"`
	Seed           int64             `json:"seed"`
	Shard          pace.Shard        `json:"shard"`
	StartAt        string            `json:"startAt"`
	Thresholds     map[string]string `json:"thresholds"`
	RequestOptions RequestOptions    `json:"requestOptions"`
}

// A ProfileConfig is the shape of the rate.
type ProfileConfig struct {
	Type     string `json:"type"`
	Params   any    `json:"params"`
	Arrivals string `json:"arrivals"`
}

// RequestOptions describe the requests.
type RequestOptions struct {
	Method     string            `json:"method"`
	Headers    map[string]string `json:"headers"`
	Query      map[string]string `json:"query"`
	Body       string            `json:"body"`
	BodyBase64 string            `json:"bodyBase64"`
	Timeout    float64           `json:"timeout"` // seconds
	KeepAlive  bool              `json:"keepAlive"`
	GRPC       bool              `json:"grpc"`
}

// A document is what users may write: a Config, or the name of one.
type document struct {
	Name *string `json:"config"`
	Config
	RequestsPerThread *float64 `json:"requestsPerThread"`
}

// has reports whether a field is present: the last of names, inside the others. null counts as
// absent.
func (b *builder) has(names ...string) bool {
	n := b.Root
	for _, name := range names {
		if n = n.Member(name); n == nil || n.Kind == strict.Null {
			return false
		}
	}
	return true
}

// read reads a document. Fields that it does not have have their defaults; a required number is
// NaN.
func read(data []byte, folder string) (*builder, error) {
	b := &builder{folder: folder, Reader: strict.Reader{Root: new(strict.Node), Nulls: true, Over: true}}
	d := &b.document
	d.Duration, d.Protocol, d.Shard.Of, d.Thresholds = math.NaN(), HTTP1.String(), 1, map[string]string{}
	d.RequestOptions = RequestOptions{
		Method: "GET", Headers: map[string]string{}, Query: map[string]string{}, Timeout: timeoutDefault.Seconds(),
		KeepAlive: true,
	}
	if err := b.Root.Parse(data); err != nil {
		return nil, err
	}
	if !b.Decode(b.Root, "", d) && (d.Name != nil || b.Root.Kind != strict.Object) {
		return nil, b.Err()
	}
	return b, nil
}

// named reads the document in the folder that the field config names. Other fields may only be
// null: one with its default would be a fault too, since the file may have another value.
func (b *builder) named() (*builder, error) {
	name := *b.document.Name
	refuse := func(format string, args ...any) (*builder, error) {
		b.Fault("config", format, args...)
		return nil, b.Err()
	}
	other := func(n strict.Name) bool { return string(n.Word) != "config" && b.has(string(n.Word)) }
	switch {
	case slices.ContainsFunc(b.Root.Names, other):
		return refuse("must be the only field: the others belong in the file it names")
	case b.folder == "":
		return refuse("names a file of the folder CONFIG_DIR, which is not set")
	case !plainName.MatchString(name):
		return refuse("must be the name of a file of letters, digits, '-', '_' and '.', without .json, is %q", name)
	}
	data, err := ReadConfig(filepath.Join(b.folder, name+".json"))
	if err != nil {
		return refuse("%v", err)
	}
	file, err := read(data, b.folder)
	if err == nil && file.document.Name != nil {
		return refuse("must not be used in a configuration that config names")
	}
	return file, err
}

// plainName matches names that cannot leave their folder.
var plainName = regexp.MustCompile(`^[a-zA-Z0-9_-][a-zA-Z0-9_.-]*$`)

// plansMax bounds the names that Names returns.
const plansMax = 200

// Names returns the names of the configurations in a folder, as the field config has them, in
// order. Of more than plansMax it returns the first, and how many others there are. An empty folder
// name has none.
func Names(folder string) (names []string, more int, err error) {
	if folder == "" {
		return nil, 0, nil
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, 0, fmt.Errorf("list configurations: %w", err)
	}
	for _, e := range entries {
		name, config := strings.CutSuffix(e.Name(), ".json")
		switch {
		case !config || e.IsDir() || !plainName.MatchString(name):
		case len(names) == plansMax:
			more++
		default:
			names = append(names, name)
		}
	}
	return names, more, nil
}

// ReadConfig reads a configuration file.
func ReadConfig(path string) ([]byte, error) {
	return ReadFile("configuration", path, configBytesMax)
}

// ReadFile reads a file of at most the given size; what names its kind in errors.
func ReadFile(what, path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s %s: %w", what, path, err)
	case int64(len(data)) > most:
		return nil, fmt.Errorf("read %s %s: is larger than %d bytes", what, path, most)
	}
	return data, nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
