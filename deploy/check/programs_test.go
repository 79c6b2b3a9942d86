package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// scratch is a folder for the whole run.
var scratch string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "weir-check-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		scratch = dir
		return m.Run()
	}())
}

// binaries builds the programs of the main module once and is their folder.
var binaries = sync.OnceValues(func() (string, error) {
	c := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", scratch+"/", "./proxy", "./target",
		"./advisor")
	c.Dir, c.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	return scratch, nil
})

// program is the binary of a container's image, if it is one of ours.
func program(t *testing.T, c *corev1.Container) (binary string, ok bool) {
	t.Helper()
	name, ours := strings.CutPrefix(c.Image, "weir/")
	if !ours {
		return "", false
	}
	dir, err := binaries()
	if err != nil {
		t.Fatal(err)
	}
	name, _, _ = strings.Cut(name, ":")
	binary = filepath.Join(dir, name)
	if _, err := os.Stat(binary); err != nil {
		t.Fatalf("the image weir/%s is of no program: %v", name, err)
	}
	return binary, true
}

// adminSecret and adminKey are the Secret that whoever applies an overlay makes
// first: the token of the own endpoints.
const adminSecret, adminKey = "weir-admin", "token"

// environment is what a container of d is given; empty when there is no such
// container. Secrets are optional, and left out, but for the token.
func (o *objects) environment(t *testing.T, d *appsv1.Deployment, name string) map[string]string {
	t.Helper()
	env := make(map[string]string)
	for _, c := range d.Spec.Template.Spec.Containers {
		if c.Name != name {
			continue
		}
		for _, from := range c.EnvFrom {
			m := o.configMap(from.ConfigMapRef.Name)
			if m == nil {
				t.Fatalf("%s: there is no ConfigMap %s", d.Name, from.ConfigMapRef.Name)
			}
			for k, v := range m.Data {
				env[k] = v
			}
		}
		for _, e := range c.Env {
			if s := e.ValueFrom; s != nil {
				if k := s.SecretKeyRef; strings.HasSuffix(e.Name, "_TOKEN") && k != nil && k.Name == adminSecret &&
					k.Key == adminKey {
					env[e.Name] = "a-token"
					continue
				}
				if s.SecretKeyRef == nil || s.SecretKeyRef.Optional == nil || !*s.SecretKeyRef.Optional {
					t.Errorf("%s, %s: %s is from something that is not there", d.Name, name, e.Name)
				}
			}
			env[e.Name] = e.Value
		}
	}
	return env
}

// Every variable is a setting of the program that is given it.
func TestSettings(t *testing.T) {
	each(t, func(t *testing.T, o *objects) {
		for _, d := range o.deployments {
			for _, c := range d.Spec.Template.Spec.Containers {
				binary, ok := program(t, &c)
				if !ok {
					continue
				}
				help, err := exec.Command(binary, "-help").Output()
				if err != nil {
					t.Fatal(err)
				}
				for name := range o.environment(t, d, c.Name) {
					if !strings.Contains("\n"+string(help), "\n"+name+" ") {
						t.Errorf("%s, %s: %s is no setting", d.Name, c.Name, name)
					}
				}
			}
		}
	})
}

// All programs have the token, and the same one.
func TestToken(t *testing.T) {
	each(t, func(t *testing.T, o *objects) {
		for _, d := range o.deployments {
			for _, c := range d.Spec.Template.Spec.Containers {
				if strings.HasPrefix(c.Image, "weir/") && o.environment(t, d, c.Name)["ADMIN_TOKEN"] == "" {
					t.Errorf("%s, %s: ADMIN_TOKEN is not from the Secret %s", d.Name, c.Name, adminSecret)
				}
			}
		}
	})
}

// Every program starts with what its container is given, its ConfigMaps among
// it, and its probes are answered there.
func TestProgramsStart(t *testing.T) {
	each(t, func(t *testing.T, o *objects) {
		for _, d := range o.deployments {
			for _, c := range d.Spec.Template.Spec.Containers {
				if binary, ok := program(t, &c); ok {
					o.start(t, d, &c, binary)
				}
			}
		}
	})
}

// start runs one container's program and asks its probes.
func (o *objects) start(t *testing.T, d *appsv1.Deployment, c *corev1.Container, binary string) {
	t.Helper()
	env, ports := o.here(t, d, c)
	variables := []string{"HOME=" + scratch}
	for name, value := range env {
		variables = append(variables, name+"="+value)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var said strings.Builder
	command := exec.Command(binary)
	command.Env, command.Stdout, command.Stderr = variables, &said, &said
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- command.Wait()
		cancel() // nobody will answer
	}()
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if probe == nil {
			continue
		}
		if err := answered(ctx, probe, ports, binary, variables); err != nil {
			t.Errorf("%s, %s: %v", d.Name, c.Name, err)
			break
		}
	}
	_ = command.Process.Signal(syscall.SIGTERM)
	if err := <-ended; err != nil {
		t.Errorf("%s, %s: %v\n%s", d.Name, c.Name, err, said.String())
	}
	if env["RULES_FILE"] != "" && !strings.Contains(said.String(), "Applied new rules") {
		t.Errorf("%s, %s: the rules are not taken:\n%s", d.Name, c.Name, said.String())
	}
}

// here is a container's environment, and the ports that it has by their names,
// as they can be on this machine: what is mounted is in folders, the ports are
// free ones, and the names of a cluster lead nowhere.
func (o *objects) here(t *testing.T, d *appsv1.Deployment, c *corev1.Container) (env, ports map[string]string) {
	t.Helper()
	env, ports = o.environment(t, d, c.Name), make(map[string]string)
	files := o.mounts(t, d, c)
	for name, value := range env {
		for mount, dir := range files {
			if path.Dir(value) == mount {
				env[name] = filepath.Join(dir, path.Base(value))
				if !strings.HasPrefix(name, "STATE") {
					if _, err := os.Stat(env[name]); err != nil {
						t.Errorf("%s, %s: nothing is mounted at %s", d.Name, c.Name, value)
					}
				}
			}
		}
	}
	env["BIND"], env["PORT"] = "127.0.0.1", freePort(t)
	ports["http"] = env["PORT"]
	if env["ADMIN_PORT"] != "" {
		env["ADMIN_PORT"] = freePort(t)
		ports["admin"] = env["ADMIN_PORT"]
	}
	if env["REDIS_HOST"] != "" {
		env["REDIS_HOST"] = "127.0.0.1"
	}
	if env["POSTGRES_URL"] != "" {
		env["POSTGRES_URL"] = "postgres://weir@127.0.0.1/weir"
	}
	if env["TARGET_URL"] != "" {
		env["TARGET_URL"], env["TARGET_HEALTH_PATH"] = "http://127.0.0.1:"+freePort(t), ""
	}
	return env, ports
}

// mounts writes what is mounted into folders, by the place of the mount.
func (o *objects) mounts(t *testing.T, d *appsv1.Deployment, c *corev1.Container) map[string]string {
	t.Helper()
	dirs := make(map[string]string)
	for _, m := range c.VolumeMounts {
		dirs[m.MountPath] = t.TempDir()
		for _, v := range d.Spec.Template.Spec.Volumes {
			if v.Name != m.Name || v.ConfigMap == nil {
				continue
			}
			for name, content := range o.configMap(v.ConfigMap.Name).Data {
				if err := os.WriteFile(filepath.Join(dirs[m.MountPath], name), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return dirs
}

// answered waits until a probe is satisfied.
func answered(ctx context.Context, probe *corev1.Probe, ports map[string]string, binary string, env []string) error {
	for {
		err := once(ctx, probe, ports, binary, env)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// once asks a probe's question as the kubelet does.
func once(ctx context.Context, probe *corev1.Probe, ports map[string]string, binary string, env []string) error {
	switch {
	case probe.Exec != nil:
		if probe.Exec.Command[0] != "/"+filepath.Base(binary) {
			return fmt.Errorf("the image has no %s", probe.Exec.Command[0])
		}
		c := exec.CommandContext(ctx, binary, probe.Exec.Command[1:]...)
		c.Env = env
		out, err := c.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%v: %w: %s", probe.Exec.Command, err, out)
		}
		return nil
	case probe.HTTPGet != nil:
		port := ports[probe.HTTPGet.Port.StrVal]
		if port == "" {
			return fmt.Errorf("a probe at port %q, which there is not", probe.HTTPGet.Port.StrVal)
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+port+probe.HTTPGet.Path, nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		body, _ := io.ReadAll(answer.Body)
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s: %s", req.URL, answer.Status, body)
		}
		return nil
	}
	return errors.New("a probe of a kind that nobody checks")
}

// freePort returns a port that no other process gets until the test ends. Like
// weir/internal/test/freeport, which another module cannot import, it listens at the
// first port of a block: who uses either leaves the other ports of the block alone.
func freePort(t *testing.T) string {
	t.Helper()
	for range 1000 {
		first := 15_000 + 50*rand.IntN(300)
		guard, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first))
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = guard.Close() })
		port := strconv.Itoa(first + 1)
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return ""
}
