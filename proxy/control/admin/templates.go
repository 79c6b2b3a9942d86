package admin

import (
	"errors"
	"strings"
	"sync/atomic"

	"weir/internal/program/service"
	"weir/internal/program/watch"
	"weir/proxy/rules/refusal"
)

// Bounds of a template file, in bytes, and of the files of the folder. Package refusal has a
// bound of its own for a template.
const (
	templateFileMax  = 1 << 20
	templateFilesMax = 3000
)

// Templates keeps the refusal templates in force: those in the folder REFUSAL_TEMPLATES,
// if there is one.
//
// Safe for concurrent use: what is in force is behind an atomic pointer.
type Templates struct {
	folder string
	pages  atomic.Pointer[refusal.Pages]
}

// NewTemplates reads a folder; "" means none. The error is a *service.SettingError.
func NewTemplates(folder string) (*Templates, error) {
	t := &Templates{folder: folder}
	if err := t.Reload(); err != nil {
		return nil, &service.SettingError{Name: "REFUSAL_TEMPLATES", Value: folder, Problem: "cannot be used: " + err.Error(),
			Allowed: "a folder with files NAME.html, NAME.json and NAME.txt"}
	}
	return t, nil
}

// Pages returns the templates in force. Only Templates replaces them.
func (t *Templates) Pages() *atomic.Pointer[refusal.Pages] { return &t.pages }

// Has reports whether there are templates of a name now.
func (t *Templates) Has(name string) bool { return t.pages.Load().Has(name) }

// Reload reads the folder again. If it returns an error, which names file and line, the
// previous templates stay in force.
func (t *Templates) Reload() error {
	files, err := readFolder(t.folder)
	if err != nil {
		return err
	}
	pages, err := refusal.New(files)
	if err != nil {
		return err
	}
	t.pages.Store(pages)
	return nil
}

// readFolder reads the files of a folder, except those that editors keep there.
func readFolder(folder string) (map[string][]byte, error) {
	if folder == "" {
		return nil, nil
	}
	files, err := watch.ReadFolder(folder, templateFilesMax, templateFileMax,
		func(name string) bool { return !strings.HasSuffix(name, "~") })
	if err == nil && len(files) == 0 {
		err = errors.New("it holds no templates")
	}
	return files, err
}
