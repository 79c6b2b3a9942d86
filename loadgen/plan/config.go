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

	"weir/internal/strict"
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
	Concurrency    int               `json:"concurrency"`
	Seed           int64             `json:"seed"`
	Shard          pace.Shard        `json:"shard"`
	StartAt        string            `json:"startAt"`
	Thresholds     map[string]string `json:"thresholds"`
	RequestOptions RequestOptions    `json:"requestOptions"`
}

// A ProfileConfig is the shape of the rate.
type ProfileConfig struct {
	Type     string     `json:"type"`
	Params   strict.Raw `json:"params"`
	Arrivals string     `json:"arrivals"`
}

// RequestOptions describe the requests.
type RequestOptions struct {
	Method    string            `json:"method"`
	Headers   map[string]string `json:"headers"`
	Query     map[string]string `json:"query"`
	Body      string            `json:"body"`
	Timeout   float64           `json:"timeout"` // seconds
	KeepAlive bool              `json:"keepAlive"`
}

// A document is what users may write: a Config, or the name of one.
type document struct {
	Name *string `json:"config"`
	Config
	RequestsPerThread *float64 `json:"requestsPerThread"`

	source strict.Node
}

// has reports whether a field is present: the last of names, inside the others. null counts as
// absent.
func (d *document) has(names ...string) bool {
	n := &d.source
	for _, name := range names {
		if n = n.Member(name); n == nil || n.Kind == strict.Null {
			return false
		}
	}
	return true
}

// read parses a document. Fields that it does not have have their defaults; a required number
// is NaN.
func read(data []byte) (*document, error) {
	d := &document{Config: Config{
		Duration: math.NaN(), Shard: pace.Shard{Of: 1}, Thresholds: map[string]string{},
		RequestOptions: RequestOptions{
			Method: "GET", Headers: map[string]string{}, Query: map[string]string{}, Timeout: timeoutDefault.Seconds(), KeepAlive: true,
		},
	}}
	if err := strict.DecodeOver(data, d); err != nil {
		return nil, err
	}
	return d, d.source.Parse(data)
}

// readNamed reads the document in folder that from names. Besides the name, from may only have
// fields that are null: one with its default would be a fault too, since the file may have
// another value.
func readNamed(from *document, folder string) (*document, error) {
	name := *from.Name
	refuse := func(format string, args ...any) (*document, error) {
		return nil, strict.Fault{Path: "config", Message: fmt.Sprintf(format, args...)}
	}
	other := func(n strict.Name) bool { return string(n.Word) != "config" && from.has(string(n.Word)) }
	switch {
	case slices.ContainsFunc(from.source.Names, other):
		return refuse("must be the only field: the others belong in the file it names")
	case folder == "":
		return refuse("names a file of the folder CONFIG_DIR, which is not set")
	case !plainName.MatchString(name):
		return refuse("must be the name of a file of letters, digits, '-', '_' and '.', without .json, is %q", name)
	}
	named, err := ReadConfig(filepath.Join(folder, name+".json"))
	if err != nil {
		return refuse("%v", err)
	}
	d, err := read(named)
	if err == nil && d.Name != nil {
		return refuse("must not be used in a configuration that config names")
	}
	return d, err
}

// plainName matches names that cannot leave their folder.
var plainName = regexp.MustCompile(`^[a-zA-Z0-9_-][a-zA-Z0-9_.-]*$`)

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
