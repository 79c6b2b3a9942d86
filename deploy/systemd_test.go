package deploy

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const unitFile = "systemd/weir-proxy.service"

// unit is the unit's assignments; what is said several times is a list.
func unit(t *testing.T) map[string][]string {
	t.Helper()
	keys := make(map[string][]string)
	for line := range strings.Lines(read(t, unitFile)) {
		line = strings.TrimSpace(line)
		if key, value, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			keys[key] = append(keys[key], value)
		}
	}
	return keys
}

// What matters of the unit, whoever reads it.
func TestUnit(t *testing.T) {
	keys := unit(t)
	for key, want := range map[string]string{
		"DynamicUser": "yes", "NoNewPrivileges": "yes", "ProtectSystem": "strict", "ProtectHome": "yes", "PrivateTmp": "yes",
		"PrivateDevices": "yes", "CapabilityBoundingSet": "", "KillSignal": "SIGTERM", "LimitNOFILE": "1048576", "Restart": "always",
		"TimeoutStopSec": "40", "RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX AF_NETLINK", "EnvironmentFile": "/etc/weir/proxy.env",
		"ExecStart": "/usr/local/bin/weir-proxy",
	} {
		if have := keys[key]; len(have) != 1 || have[0] != want {
			t.Errorf("%s is %q, want %q", key, have, want)
		}
	}
}

// systemd itself reads the unit, with the program where it is here.
func TestUnitVerifies(t *testing.T) {
	if !there(t, "systemd-analyze", "whether systemd takes the unit") {
		return
	}
	text := strings.Replace(read(t, unitFile), "ExecStart=/usr/local/bin/weir-proxy", "ExecStart="+binary(t, "proxy"), 1)
	file := filepath.Join(t.TempDir(), "weir-proxy.service")
	write(t, file, text)
	said, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", file).CombinedOutput()
	if err != nil || len(said) > 0 { // what it does not understand it passes over, and says so
		t.Errorf("%v: %s", err, said)
	}
	// Exposure in tenths, of a hundred: little is left that it could do.
	output(t, "systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=20", file)
}

// The proxy starts with the unit's settings, and is healthy by its own check.
func TestUnitSettings(t *testing.T) {
	known := settings(t, "proxy")
	var env []string
	for line := range strings.Lines(read(t, "systemd/proxy.env")) {
		line = strings.TrimSpace(line)
		name, value, ok := strings.Cut(strings.TrimPrefix(line, "#"), "=")
		if !ok {
			continue // a sentence
		}
		if !known[name] {
			t.Errorf("%s is no setting of the proxy", name)
		}
		if !strings.HasPrefix(line, "#") && name != "ADMIN_PORT" {
			env = append(env, name+"="+value)
		}
	}
	p, addr := launch(t, "proxy", env...)
	host, port, _ := strings.Cut(addr, ":")
	if said, err := try(t.Context(), []string{"BIND=" + host, "PORT=" + port}, binary(t, "proxy"), "-healthcheck"); err != nil {
		t.Errorf("%s%v\n%s", said, err, p.Output())
	}
}
