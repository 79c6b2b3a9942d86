package result

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// A Machine describes the machine of a measurement.
type Machine struct {
	Processor string `json:"processor"`
	Cores     int    `json:"cores"`
	Kernel    string `json:"kernel"`
	Go        string `json:"go"`
}

// String returns the description for a page.
func (m Machine) String() string {
	return fmt.Sprintf("%s, %d cores, Linux %s, %s", m.Processor, m.Cores, m.Kernel, m.Go)
}

// ThisMachine describes the current machine.
func ThisMachine() Machine {
	m := Machine{Processor: runtime.GOARCH, Cores: runtime.NumCPU(), Kernel: "unknown", Go: runtime.Version()}
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if name, ok := strings.CutPrefix(line, "model name"); ok {
				m.Processor = strings.TrimSpace(strings.TrimLeft(name, "\t :"))
				break
			}
		}
	}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = string(bytes.TrimSpace(release))
	}
	return m
}

// Commit returns the commit of the repository in the current folder, or "unknown". + marks
// uncommitted changes other than those of results and of BENCHMARKS.md.
func Commit() string {
	head, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	commit := string(bytes.TrimSpace(head))
	changes, err := exec.Command("git", "status", "--porcelain", "--", ".", ":!bench/results", ":!BENCHMARKS.md").Output()
	if err != nil || len(bytes.TrimSpace(changes)) > 0 {
		commit += "+"
	}
	return commit
}
