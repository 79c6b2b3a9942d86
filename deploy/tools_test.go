package deploy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/bench/lab/rig"
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
func launch(t *testing.T, name string, env ...string) (*rig.Process, string) {
	t.Helper()
	own, addr := freeEnv(t)
	p := running(t, name, append(own, env...), binary(t, name))
	if err := p.AwaitPort(t.Context(), addr); err != nil {
		t.Fatal(err)
	}
	return p, addr
}

// freeEnv returns the settings of a program that listens at a free address.
func freeEnv(t *testing.T) (env []string, addr string) {
	t.Helper()
	addr = testkit.FreeAddr(t)
	host, port, _ := strings.Cut(addr, ":")
	return []string{"BIND=" + host, "PORT=" + port}, addr
}

// running starts a command, until the test ends.
func running(t *testing.T, name string, env []string, command ...string) *rig.Process {
	t.Helper()
	p := testkit.Must(rig.Start(name, env, command...))(t)
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	return p
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

// fetch reads a URL. A status other than 200 is an error.
func fetch(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, answer.Status, bytes.TrimSpace(body))
	}
	return body, err
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
