package port

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"weir/internal/data/strict"
	"weir/internal/program/metric"
	"weir/internal/program/service"
	"weir/internal/program/watch"
	"weir/proxy/rules/descriptor"
)

const (
	filesMax     = 1000      // of a folder
	fileBytesMax = 8<<20 + 1 // more than the bound of package descriptor
)

// A Limits reads the descriptors of Envoy's rate limit service from a file or a folder, or is given them.
//
// Safe for concurrent use: mu guards reading; the limits in force are read without it.
type Limits struct {
	// OnChange, if not nil, is called after each change of the limits in force, one call at a time. It is
	// set before any other use and must not change them.
	OnChange func()

	source Source
	log    *slog.Logger
	active atomic.Pointer[descriptor.Domains]

	mu      sync.Mutex
	files   []descriptor.File // of the limits in force
	skipped []string          // what is in the folder and was not read
	failing atomic.Bool       // the files on disk are not in force
	loaded  metric.Counter
	failed  metric.Counter
}

// A Source says where files of limits are.
type Source struct {
	Path  string // of a file, or of a folder; empty: there are none
	Name  string // of the setting, for the log; empty: RATELIMIT_CONFIG
	Merge bool   // files may share a domain
	// Tolerant says that files are read as by envoyproxy/ratelimit: one that is not valid does not end the start, and a
	// folder without files, or one that does not exist yet, means that there are no limits.
	Tolerant bool
}

// NewLimits reads a file or all files of a folder. Without a path there are no limits. The error is a
// *[service.SettingError]. With Source.Tolerant it is nil, and Follow reports invalid files.
func NewLimits(source Source, log *slog.Logger) (*Limits, error) {
	source.Name = cmp.Or(source.Name, "RATELIMIT_CONFIG")
	l := &Limits{source: source, log: log}
	if source.Path == "" {
		return l, nil
	}
	if err := l.read(); err != nil && !source.Tolerant {
		return nil, FilesError("RATELIMIT_CONFIG", source.Path, err)
	}
	return l, nil
}

// Domains returns the limits in force, or nil.
func (l *Limits) Domains() *descriptor.Domains { return l.active.Load() }

// Follow reads the files again whenever they change, until ctx ends.
func (l *Limits) Follow(ctx context.Context) {
	w := watch.New(l.source.Path)
	again := func() {
		if err := l.Reload(); err != nil {
			l.logFault(err)
		}
	}
	again()
	w.Run(ctx, again)
}

// Reload reads the files again. If it returns an error, the previous limits stay in
// force.
func (l *Limits) Reload() error {
	return l.outcome(l.read())
}

// CheckFiles reads a file or all files of a folder, as [NewLimits] does, and counts what is in them.
func CheckFiles(path string, merge bool) (counts string, err error) {
	files, skipped, err := readFiles(path)
	if err != nil {
		return "", err
	}
	made, err := descriptor.Read(files, merge)
	if err != nil {
		return "", err
	}
	domains, limits := made.Len()
	return fmt.Sprintf("files=%d domains=%d limits=%d skipped=%d", len(files), domains, limits, len(skipped)), nil
}

// FilesError returns the fault of a setting that names files which cannot be used; nil without an error.
func FilesError(setting, path string, err error) error {
	if err == nil {
		return nil
	}
	return &service.SettingError{Name: setting, Value: path, Problem: "cannot be used: " + err.Error()}
}

// read puts the content of the files in force.
func (l *Limits) read() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	files, skipped, err := readFiles(l.source.Path)
	none := errors.Is(err, errNoFiles) || errors.Is(err, errMissing) && len(l.files) == 0
	switch {
	case none && l.source.Tolerant:
		if l.Domains() == nil || len(l.files) > 0 {
			l.log.Warn("There are no limits for descriptors until "+l.source.Name+" has files", "folder", l.source.Path,
				"reason", err)
		}
	case err != nil:
		return err
	}
	if len(skipped) > 0 && !slices.Equal(skipped, l.skipped) {
		l.log.Warn(l.source.Name+" has entries that are not read: folders, or names that end otherwise than in "+
			".yaml, .yml or .json", "skipped", len(skipped), "names", strings.Join(skipped[:min(len(skipped), 3)], ", "))
	}
	l.skipped = skipped
	return l.put(files)
}

// Put puts files from elsewhere in force. If it returns an error, the previous limits stay in force.
func (l *Limits) Put(files []descriptor.File) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.outcome(l.put(files))
}

// outcome counts an error of files that are to replace others.
func (l *Limits) outcome(err error) error {
	if err != nil {
		l.failed.Inc()
	}
	l.failing.Store(err != nil)
	return err
}

func (l *Limits) put(files []descriptor.File) error {
	if l.Domains() != nil && slices.EqualFunc(files, l.files, descriptor.File.Equal) {
		if l.failing.Swap(false) { // or the error would be the last that the log says
			l.log.Info("Valid again, with the limits in force", "files", len(files))
		}
		return nil
	}
	made, err := descriptor.Read(files, l.source.Merge)
	if err != nil {
		return err
	}
	l.files = files
	l.active.Store(made)
	l.loaded.Inc()
	domains, limits := made.Len()
	l.log.Info("Loaded", "domains", domains, "limits", limits, "files", len(files))
	if l.OnChange != nil {
		l.OnChange()
	}
	return nil
}

// logFault logs an error in one line that starts with the file and line of the first fault.
func (l *Limits) logFault(err error) {
	place := l.source.Path
	if wrong, ok := errors.AsType[*descriptor.FileError](err); ok {
		place = wrong.File
		if faults, ok := errors.AsType[strict.Faults](wrong.Faults); ok && faults[0].Line > 0 {
			place = fmt.Sprintf("%s:%d", place, faults[0].Line)
		}
	}
	inForce := "the previous limits stay in force"
	if l.Domains() == nil {
		inForce = "there are no limits"
	}
	l.log.Error(l.source.Name+" ignored, "+inForce, "file", place, "reason",
		strings.ReplaceAll(err.Error(), "\n", "; "))
}

func (l *Limits) register(set *metric.Set) {
	set.Counter("ratelimit_service_config_load_success", "limits of descriptors that are or were in force",
		l.loaded.Load)
	set.Counter("ratelimit_service_config_load_error", "limits of descriptors that were not valid and ignored",
		l.failed.Load)
	set.Gauge("ratelimiter_ratelimit_config_ignored",
		"1 while limits of descriptors are invalid and the previous ones stay in force", func() float64 {
			return metric.Bool(l.failing.Load())
		})
}

var (
	errNoFiles = errors.New("it has no file whose name ends in .yaml, .yml or .json")
	errMissing = errors.New("no such file or directory")
)

// readFiles reads a file, or the files of a folder whose names end in .yaml, .yml or .json. The others
// are returned as skipped, except hidden ones, which are not expected to be read.
func readFiles(path string) (files []descriptor.File, skipped []string, err error) {
	stat, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = errMissing // the path is named beside it
	}
	if err != nil {
		return nil, nil, err
	}
	if !stat.IsDir() {
		text, err := watch.ReadFile(path, fileBytesMax)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", path, err)
		}
		return []descriptor.File{{Name: path, Text: text}}, nil, nil
	}
	texts, err := watch.ReadFolder(path, filesMax, fileBytesMax, func(name string) bool {
		ok := slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name))
		if !ok {
			skipped = append(skipped, name)
		}
		return ok
	})
	if err == nil && len(texts) == 0 {
		return nil, skipped, errNoFiles
	}
	if err != nil {
		return nil, skipped, fmt.Errorf("%s: %w", path, err)
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		files = append(files, descriptor.File{Name: filepath.Join(path, name), Text: texts[name]})
	}
	return files, skipped, nil
}
