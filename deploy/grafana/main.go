// Command grafana writes the dashboards as Grafana reads them:
//
//	go run ./deploy/grafana deploy/grafana/dashboards
//
// The files are kept in the repository, so that nobody needs this to use them.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: grafana FOLDER")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "grafana:", err)
		os.Exit(1)
	}
}

// boards are all dashboards.
func boards() []board {
	return []board{experiment(), proxy(), postgres(), loadgen(), target(), advisor()}
}

// write writes every dashboard into dir.
func write(dir string) error {
	for _, b := range boards() {
		text, err := b.render()
		if err != nil {
			return fmt.Errorf("render %s: %w", b.file(), err)
		}
		if err := os.WriteFile(filepath.Join(dir, b.file()), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
