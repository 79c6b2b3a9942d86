package deploy

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"weir/internal/test/testkit"
)

// dockerLines returns the `docker run` lines of the README by program.
func dockerLines(t *testing.T) map[string]string {
	t.Helper()
	lines := make(map[string]string)
	text := strings.ReplaceAll(read(t, "README.md"), "\\\n", " ")
	for _, m := range regexp.MustCompile(`(?m)^docker run .* weir/(\w+)$`).FindAllStringSubmatch(text, -1) {
		lines[m[1]] = m[0]
	}
	return lines
}

// The lines of the README work: the containers pass their health checks with a read-only file
// system, and end on request. Names and ports are replaced to avoid conflicts.
func TestDockerRunLines(t *testing.T) {
	lines := dockerLines(t)
	for program := range ports {
		if lines[program] == "" {
			t.Errorf("the README has no docker run line for %s", program)
		}
	}
	if !engineThere(t) {
		return
	}
	if err := images(); err != nil {
		t.Fatal(err)
	}
	root := testkit.Must(filepath.Abs(".."))(t)
	network, mine := "weir-"+tag, "weir-"+tag+"-"
	output(t, "docker", "network", "create", network)
	t.Cleanup(func() {
		for _, program := range programs() {
			_, _ = try(contextOf(t), nil, "docker", "rm", "--force", "--volumes", mine+program)
		}
		_, _ = try(contextOf(t), nil, "docker", "volume", "rm", mine+"advisor")
		if _, err := try(contextOf(t), nil, "docker", "network", "rm", network); err != nil {
			t.Error(err)
		}
	})
	for _, program := range []string{"target", "advisor", "proxy", "loadgen"} {
		line := strings.NewReplacer(
			"--name "+program, "--name "+mine+program+" --network-alias "+program, "--network weir ", "--network "+network+" ",
			fmt.Sprintf("127.0.0.1:%d:", ports[program]), loopback+":"+testkit.FreePort(t)+":", "-v weir-advisor:",
			"-v "+mine+"advisor:",
			" weir/"+program, " weir/"+program+":"+tag, "$PWD", root,
		).Replace(lines[program])
		if !strings.Contains(line, network) || !strings.Contains(line, mine) || !strings.Contains(line, ":"+tag) ||
			!strings.Contains(line, loopback) {
			t.Fatalf("%s would meet others", line)
		}
		output(t, "sh", "-c", line)
	}
	for _, program := range programs() {
		await(t, program+" is healthy", func() error {
			said, err := try(t.Context(), nil, "docker", "exec", mine+program, "/"+program, "-healthcheck")
			if err == nil && !strings.Contains(said, "200 OK UP") {
				err = fmt.Errorf("it says %s", said)
			}
			return err
		})
	}
	for _, program := range programs() {
		output(t, "docker", "stop", "--time", "20", mine+program)
		if c := inspect(t, mine+program); c.State.ExitCode != 0 || !c.HostConfig.ReadonlyRootfs {
			t.Errorf("%s ended with status %d, read-only: %t\n%s", program, c.State.ExitCode, c.HostConfig.ReadonlyRootfs,
				output(t, "docker", "logs", mine+program))
		}
	}
}

// The files named by the README exist.
func TestReadmeNames(t *testing.T) {
	text := read(t, "README.md")
	for _, m := range regexp.MustCompile("deploy/[a-zA-Z0-9_./-]*[a-zA-Z]").FindAllString(text, -1) {
		if !exists(m) {
			t.Errorf("README.md names %s, which is not there", m)
		}
	}
	makefile := testkit.Must(os.ReadFile("../Makefile"))(t)
	for _, m := range regexp.MustCompile("make ([a-z-]+)").FindAllStringSubmatch(text, -1) {
		if !strings.Contains(string(makefile), "\n"+m[1]+":") {
			t.Errorf("README.md names make %s, which is not in the Makefile", m[1])
		}
	}
}
