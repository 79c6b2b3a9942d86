package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// skewName is the environment variable from which a program built by buildWithSkewedClock reads the
// offset of its clock: a duration of less than 1 s for time.ParseDuration.
const skewName = "BENCH_CLOCK_SKEW"

// The changes to package time. They affect the wall clock, but not the monotonic one.
const (
	nowBegins = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	nowSkewed = nowBegins + "\tif nsec += skew; nsec >= 1e9 {\n\t\tsec, nsec = sec+1, nsec-1e9\n\t}\n"
	skewRead  = "\nvar skew int32\n\nfunc init() {\n\ttext, _ := syscall.Getenv(\"" + skewName +
		"\")\n\td, _ := ParseDuration(text)\n\tskew = int32(d)\n}\n"
	imports = "import (\n"
)

// buildWithSkewedClock builds a program with an adjustable wall clock into the file out. A Go program
// reads the clock without a library that could be replaced at its start, so it is built with a
// changed package time. That needs the Go tool and the sources.
func buildWithSkewedClock(ctx context.Context, program, out string) error {
	return Catch(func() {
		root := Must(exec.CommandContext(ctx, "go", "env", "GOROOT").Output())
		source := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
		text := string(Must(os.ReadFile(source)))
		changed := strings.Replace(text, nowBegins, nowSkewed, 1)
		if changed == text {
			Check(fmt.Errorf("%s: Now has an unexpected beginning", source))
		}
		changed = strings.Replace(changed, imports, imports+"\t\"syscall\"\n", 1) + skewRead
		dir := Must(os.MkdirTemp("", "weir-clock-"))
		defer os.RemoveAll(dir)
		replaced, overlay := filepath.Join(dir, "time.go"), filepath.Join(dir, "overlay.json")
		list := fmt.Appendf(nil, `{"Replace": {%q: %q}}`, source, replaced)
		Check(errors.Join(os.WriteFile(replaced, []byte(changed), 0o600), os.WriteFile(overlay, list, 0o600)))
		if output, err := exec.CommandContext(ctx, "go", "build", "-overlay", overlay, "-o", out,
			program).CombinedOutput(); err != nil {
			Check(fmt.Errorf("build %s with another clock: %w\n%.300s", program, err, output))
		}
	})
}

// skewedEnv returns the environment variable that sets the clock of such a program ahead.
func skewedEnv(by time.Duration) string { return skewName + "=" + by.String() }

// skewedProxy is the file name of a proxy built by buildWithSkewedClock.
const skewedProxy = "proxy-skewed"

// BuildProxyWithSkewedClock builds the proxy for StartProxy with another clock; remove removes it.
func BuildProxyWithSkewedClock(ctx context.Context) (remove func(), err error) {
	proxy, err := Binary("proxy")
	if err != nil {
		return nil, err
	}
	out := filepath.Join(filepath.Dir(proxy), skewedProxy)
	return func() { _ = os.Remove(out) }, buildWithSkewedClock(ctx, "./proxy", out)
}

// StartProxy starts a proxy whose clock is ahead by less than 1 s, as Start does.
func (l *Lab) StartProxy(ahead time.Duration, env ...string) (*Process, string) {
	if ahead == 0 {
		return l.Start("proxy", env...)
	}
	return l.Start(skewedProxy, append(env, skewedEnv(ahead))...)
}
