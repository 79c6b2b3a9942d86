package service

import "runtime/debug"

// version is set by the linker:
//
//	go build -ldflags "-X weir/internal/program/service.version=v1.2.3"
var version string

// Version returns the version of the running program: that set by the linker, otherwise
// the module's version or the commit recorded by the Go tool, otherwise "dev".
func Version() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "dev"
	}
	return versionOf(info)
}

// versionOf returns the version recorded by the Go tool.
func versionOf(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	var revision, changed string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "-dirty"
		}
	}
	if revision == "" {
		return "dev"
	}
	return revision + changed
}
