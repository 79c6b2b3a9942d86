package service_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"weir/internal/test/testkit"
)

// What all programs do with SIGHUP: logrotate renames the log and sends it, and the
// next line is in a new file. A program that lost its folder goes on as before.
func (s *stage) testHangups(t *testing.T) {
	none := map[string]string{"proxy": "rules=none clients=none certificates=none ", "loadgen": "certificates=none ",
		"advisor": "events=none "}
	for _, program := range s.files {
		name := filepath.Base(program)
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "log")
			if err := os.Mkdir(folder, 0o755); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(folder, "program.log")
			addr := testkit.FreeAddr(t)
			c := exec.Command(program)
			c.Env = []string{"BIND=127.0.0.1", "PORT=" + addr[strings.LastIndexByte(addr, ':')+1:], "LOG_FILE=" + file}
			p := testkit.StartAt(t, c, addr)
			testkit.Eventually(t, name+" answers", func() bool {
				_, _, err := p.Try("GET /actuator/health/readiness")
				return err == nil
			})
			hangup := func(n int, log string) {
				t.Helper()
				p.Signal(syscall.SIGHUP)
				got := p.LoggedTimes(" - Reloaded ", n)
				if want := " - Reloaded " + none[name] + "log=" + log; !strings.Contains(got, want) {
					t.Errorf("logged %q, want %q", got, want)
				}
			}
			rename := func(from, to string) {
				t.Helper()
				if err := os.Rename(from, to); err != nil {
					t.Fatal(err)
				}
			}
			has := func(file, part string, want bool) {
				t.Helper()
				text, err := os.ReadFile(file)
				if err != nil || strings.Contains(string(text), part) != want {
					t.Errorf("%s has %q: want %t, %v\n%s", file, part, want, err, text)
				}
			}
			rename(file, file+".1")
			hangup(1, "reopened")
			testkit.Eventually(t, "the line in the new file, which comes after that on stdout", func() bool {
				text, err := os.ReadFile(file)
				return err == nil && strings.Contains(string(text), " - Reloaded ")
			})
			has(file+".1", " - Reloaded ", false)
			rename(folder, folder+".away")
			hangup(2, "failed")
			has(folder+".away/program.log",
				fmt.Sprintf("Reload failed, the previous version stays in use part=log reason=%q",
					"open "+file+": no such file or directory"), true)
			p.Terminate()
		})
	}
}
