package plan

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"weir/internal/strict"
)

// A Config is a test configuration with all defaults filled in, in the form in which
// users write it.
//
// Immutable after Parse.
type Config struct {
	LimiterURL     string            `json:"limiterUrl"`
	Duration       float64           `json:"duration"` // seconds
	Profile        ProfileConfig     `json:"profile"`
	Concurrency    int               `json:"concurrency"`
	Seed           int64             `json:"seed"`
	Shard          ShardConfig       `json:"shard"`
	StartAt        string            `json:"startAt"`
	Thresholds     map[string]string `json:"thresholds"`
	RequestOptions RequestOptions    `json:"requestOptions"`
}

// A ProfileConfig is the shape of the rate.
type ProfileConfig struct {
	Type     string         `json:"type"`
	Params   map[string]any `json:"params"`
	Arrivals string         `json:"arrivals"`
}

// A ShardConfig says which of several generators this is.
type ShardConfig struct {
	Index int `json:"index"`
	Of    int `json:"of"`
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

// The wire types are the same in the form that users send: a nil pointer is a missing
// field.
type wire struct {
	Config            *string           `json:"config"`
	LimiterURL        *string           `json:"limiterUrl"`
	Duration          *float64          `json:"duration"`
	Profile           *profileWire      `json:"profile"`
	Concurrency       int               `json:"concurrency"`
	RequestsPerThread *float64          `json:"requestsPerThread"`
	Seed              int64             `json:"seed"`
	Shard             *shardWire        `json:"shard"`
	StartAt           string            `json:"startAt"`
	Thresholds        map[string]string `json:"thresholds"`
	RequestOptions    *optionsWire      `json:"requestOptions"`
}

type profileWire struct {
	Type     *string    `json:"type"`
	Params   strict.Raw `json:"params"`
	Arrivals string     `json:"arrivals"`
}

type shardWire struct {
	Index *int `json:"index"`
	Of    *int `json:"of"`
}

type optionsWire struct {
	Method    *string           `json:"method"`
	Headers   map[string]string `json:"headers"`
	Query     map[string]string `json:"query"`
	Body      string            `json:"body"`
	Timeout   *float64          `json:"timeout"`
	KeepAlive *bool             `json:"keepAlive"`
}

// readNamed reads the configuration that w names from folder.
func readNamed(w *wire, folder string) ([]byte, error) {
	name := *w.Config
	refuse := func(format string, args ...any) error {
		return strict.Fault{Path: "config", Message: fmt.Sprintf(format, args...)}
	}
	alone := *w
	alone.Config = nil
	switch {
	case !alone.empty():
		return nil, refuse("must be the only field: the others belong in the file it names")
	case folder == "":
		return nil, refuse("names a file of the folder CONFIG_DIR, which is not set")
	case !plainName(name):
		return nil, refuse("must be the name of a file of letters, digits, '-', '_' and '.', without .json, is %q", name)
	}
	data, err := ReadConfig(filepath.Join(folder, name+".json"))
	if err != nil {
		return nil, refuse("%v", err)
	}
	return data, nil
}

// empty reports whether no field was given.
func (w *wire) empty() bool {
	return w.LimiterURL == nil && w.Duration == nil && w.Profile == nil && w.Concurrency == 0 &&
		w.RequestsPerThread == nil && w.Seed == 0 && w.Shard == nil && w.StartAt == "" &&
		len(w.Thresholds) == 0 && w.RequestOptions == nil
}

// plainName reports whether name cannot leave its folder.
func plainName(name string) bool {
	if name == "" || name[0] == '.' {
		return false
	}
	for _, c := range []byte(name) {
		if !isAlphanumeric(c) && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

func isAlphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
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
