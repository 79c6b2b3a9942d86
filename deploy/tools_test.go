package deploy

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

// patience bounds every wait for a program. A busy machine may need much of it.
const patience = 5 * time.Minute

// scratch is a folder for the whole test run.
var scratch string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "weir-deploy-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		scratch = dir
		defer removeImages()
		return m.Run()
	}())
}

// exists reports whether the repository has a file or folder.
func exists(name string) bool {
	_, err := os.Stat(filepath.Join("..", name))
	return err == nil
}

// programs are the programs with images.
func programs() []string { return []string{"proxy", "loadgen", "target", "advisor"} }

// binaries builds the programs once, as for the images, and returns their folder.
var binaries = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(scratch, "binaries")
	_, err := try(context.Background(), nil, "docker/binaries", dir, tag)
	return dir, err
})

// binary returns the path of a program.
func binary(t *testing.T, name string) string {
	t.Helper()
	dir := testkit.Must(binaries())(t)
	return filepath.Join(dir, name)
}

// settings returns the names of settings in a program's -help.
func settings(t *testing.T, program string) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	for line := range strings.Lines(output(t, binary(t, program), "-help")) {
		name, _, _ := strings.Cut(line, " ")
		if name != "" && name != "SETTING" && strings.ToUpper(name) == name {
			names[strings.TrimSpace(name)] = true
		}
	}
	if !names["PORT"] {
		t.Fatalf("%s -help lists no settings", program)
	}
	return names
}

// launch starts a program at a free address, until the test ends.
func launch(t *testing.T, name string, env ...string) *testkit.Program {
	t.Helper()
	p := start(t, exec.Command(binary(t, name)), env...)
	t.Cleanup(p.Terminate)
	return p
}

// start starts a command with settings, and waits until it listens at a free address. It is killed when the test ends.
func start(t *testing.T, cmd *exec.Cmd, env ...string) *testkit.Program {
	t.Helper()
	at := testkit.Endpoint{Addr: testkit.FreeAddr(t)}
	cmd.Env = slices.Concat(os.Environ(), []string{"BIND=127.0.0.1", "PORT=" + at.Port()}, env)
	return testkit.StartAt(t, cmd, at.Addr)
}

// output returns the stdout of a command, which must succeed.
func output(t *testing.T, command ...string) string {
	t.Helper()
	return testkit.Must(try(t.Context(), nil, command...))(t)
}

// try runs a command with env added to our environment. Errors contain its output.
func try(ctx context.Context, env []string, command ...string) (string, error) {
	c := exec.CommandContext(ctx, command[0], command[1:]...)
	c.Env = append(os.Environ(), env...)
	var out, said bytes.Buffer
	c.Stdout, c.Stderr = &out, &said
	if err := c.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w\n%s%s", strings.Join(command, " "), err, out.String(), said.String())
	}
	return out.String(), nil
}

// contextOf returns the test's context, or during clean-up one that has not ended.
func contextOf(t *testing.T) context.Context {
	return context.WithoutCancel(t.Context())
}

// there reports whether a command is installed. If not, the test logs what was not tested.
func there(t *testing.T, command, otherwise string) bool {
	t.Helper()
	if _, err := exec.LookPath(command); err != nil {
		t.Logf("NOT TRIED: %s is not installed: %s", command, otherwise)
		return false
	}
	return true
}

// await calls done until it returns nil. If that takes too long, the test fails with its last
// error.
func await(t *testing.T, what string, done func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		err := done()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// read returns the content of a file of this folder.
func read(t *testing.T, name string) string {
	t.Helper()
	text := testkit.Must(os.ReadFile(name))(t)
	return string(text)
}
