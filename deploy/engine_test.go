package deploy

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

// tag marks the images, containers and networks of this run. No others are touched.
var tag = fmt.Sprintf("test-%08x", rand.Uint32())

// loopback is the address of containers' ports: one that is unlikely to be used otherwise.
var loopback = fmt.Sprintf("127.83.%d.%d", rand.IntN(256), 1+rand.IntN(254))

// engineThere reports whether a Docker engine answers.
func engineThere(t *testing.T) bool {
	t.Helper()
	if !there(t, "docker", "the images") {
		return false
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := try(ctx, nil, "docker", "version", "--format", "{{.Server.Version}}"); err != nil {
		t.Logf("NOT TRIED: the Docker engine does not answer: the images: %v", err)
		return false
	}
	return true
}

// images builds the images of all programs once.
var images = sync.OnceValue(func() error {
	dir, err := binaries()
	if err == nil {
		_, err = try(context.Background(), []string{"BINARIES=" + dir}, "docker/build", tag)
	}
	return err
})

// removeImages removes what images and fromDebian built.
func removeImages() {
	if _, err := exec.LookPath("docker"); err != nil {
		return
	}
	list, err := try(context.Background(), nil, "docker", "images", "--quiet", "--filter", "reference=weir/*:"+tag)
	if ids := strings.Fields(list); err == nil && len(ids) > 0 {
		_, err = try(context.Background(), nil, append([]string{"docker", "rmi", "--force"}, ids...)...)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "remove the images:", err)
	}
}

// fromDebian builds an image of installed Debian programs and the libraries that they need, in
// place of one that would have to be pulled. entry is the instruction with the entry point, if any.
func fromDebian(t *testing.T, name, entry string, commands ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, command := range commands {
		path := testkit.Must(exec.LookPath(command))(t)
		copyInto(t, filepath.Join(dir, "root"), path)
		libraries, _ := try(t.Context(), nil, "ldd", path) // a static program has none
		for word := range strings.FieldsSeq(libraries) {
			if strings.HasPrefix(word, "/") {
				copyInto(t, filepath.Join(dir, "root"), word)
			}
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "root", "data"), 0o777); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "Dockerfile"),
		"FROM scratch\nCOPY root /\nCOPY --chown=65534:65534 root/data /prometheus\n"+
			"ENV PATH=/usr/bin LD_LIBRARY_PATH=/lib\nWORKDIR /prometheus\nUSER 65534:65534\n"+entry)
	image := "weir/" + name + ":" + tag
	output(t, "docker", "build", "--quiet", "--tag", image, dir)
	return image
}

// copyInto copies a program or library into an image's root. Libraries of all folders except the
// loader's are put into /lib.
func copyInto(t *testing.T, root, file string) {
	t.Helper()
	to := filepath.Join(root, file)
	if strings.Contains(file, "/lib/") {
		to = filepath.Join(root, "lib", filepath.Base(file))
	}
	content, err := os.ReadFile(file) // behind symbolic links
	if err != nil {
		t.Fatal(err)
	}
	write(t, to, string(content))
	if err := os.Chmod(to, 0o755); err != nil {
		t.Fatal(err)
	}
}

// A container holds the fields of docker inspect that the tests check.
type container struct {
	State struct {
		Status   string
		ExitCode int
		Health   struct {
			Status string
			Log    []struct{ Output string }
		}
	}
	HostConfig struct {
		ReadonlyRootfs bool
		CapDrop        []string
	}
}

func inspect(t *testing.T, name string) container {
	t.Helper()
	var list []container
	text := output(t, "docker", "inspect", "--type", "container", name)
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list) != 1 {
		t.Fatalf("inspect %s: %v\n%s", name, err, text)
	}
	return list[0]
}

// An image holds the fields of docker image inspect that the tests check.
type image struct {
	Size   int
	Config struct {
		User        string
		Entrypoint  []string
		Healthcheck struct{ Test []string }
		Volumes     map[string]any
	}
}

// Properties of all images.
func TestImages(t *testing.T) {
	if !engineThere(t) {
		return
	}
	if err := images(); err != nil {
		t.Fatal(err)
	}
	const sizeMax = 26e6
	for _, program := range append(programs(), "ratelimit") {
		var list []image
		text := output(t, "docker", "image", "inspect", "weir/"+program+":"+tag)
		if err := json.Unmarshal([]byte(text), &list); err != nil || len(list) != 1 {
			t.Fatalf("%s: %v", program, err)
		}
		i := list[0]
		t.Logf("weir/%s: %.1f MB", program, float64(i.Size)/1e6)
		if i.Size >= sizeMax {
			t.Errorf("weir/%s has %d bytes, want less than %.0f", program, i.Size, sizeMax)
		}
		path, entry, run, name := "/"+program, "[/"+program+"]", []string{"-version"}, program
		if program == "ratelimit" {
			path, entry, run, name = "/bin/ratelimit", "[]", []string{"/bin/ratelimit", "-version"}, "proxy"
		}
		if i.Config.User != "65532:65532" || fmt.Sprint(i.Config.Entrypoint) != entry ||
			fmt.Sprint(i.Config.Healthcheck.Test) != "[CMD "+path+" -healthcheck]" {
			t.Errorf("weir/%s: %+v", program, i.Config)
		}
		said := output(t, append([]string{"docker", "run", "--rm", "--network", "none", "weir/" + program + ":" + tag},
			run...)...)
		if !strings.HasPrefix(said, name+" "+tag+" ") {
			t.Errorf("weir/%s says of its version %q", program, said)
		}
		if _, there := i.Config.Volumes["/data"]; there != (program == "advisor") {
			t.Errorf("weir/%s has the volumes %v: only the advisor has state", program, i.Config.Volumes)
		}
	}
}

// The variant that builds from source yields the same images. It cannot be built where images
// cannot be pulled, so its text is compared with the others.
func TestSourceImagesAreTheSame(t *testing.T) {
	source := read(t, "docker/Dockerfile.source")
	for _, program := range append(programs(), "ratelimit") {
		_, stage, ok := strings.Cut(source, "FROM scratch AS "+program+"\n")
		if !ok {
			t.Errorf("Dockerfile.source has no stage %s", program)
			continue
		}
		stage, _, _ = strings.Cut(stage, "\nFROM ")
		stage = strings.NewReplacer("COPY --from=build --chown", "COPY --chown", "--from=build ", "", "/out/",
			"").Replace(stage)
		_, own, _ := strings.Cut(read(t, "docker/Dockerfile."+program), "FROM scratch\n")
		if strings.TrimSpace(stage) != strings.TrimSpace(own) {
			t.Errorf("%s: Dockerfile.source has\n%s\nDockerfile.%s has\n%s", program, stage, program, own)
		}
	}
}
