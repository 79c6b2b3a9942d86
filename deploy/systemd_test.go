package deploy

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"weir/internal/test/testkit"
)

// commonUnit is the common part of all units.
const commonUnit = "weir-.service.d/weir.conf"

// unitOf returns the file name of a program's unit.
func unitOf(program string) string {
	if program == "proxy" {
		return "weir-proxy@.service"
	}
	return "weir-" + program + ".service"
}

// unit returns the assignments in unit files, with a list of values for each name.
func unit(t *testing.T, files ...string) map[string][]string {
	t.Helper()
	keys := make(map[string][]string)
	for _, file := range files {
		for line := range strings.Lines(read(t, "systemd/"+file)) {
			line = strings.TrimSpace(line)
			if key, value, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
				keys[key] = append(keys[key], value)
			}
		}
	}
	return keys
}

// Important settings of the units.
func TestUnits(t *testing.T) {
	for _, program := range programs() {
		keys := unit(t, unitOf(program), commonUnit)
		want := map[string]string{
			"DynamicUser": "yes", "NoNewPrivileges": "yes", "ProtectSystem": "strict", "ProtectHome": "yes", "PrivateTmp": "yes",
			"PrivateDevices": "yes", "CapabilityBoundingSet": "", "KillSignal": "SIGTERM", "LimitNOFILE": "1048576",
			"Restart":                  "on-failure",
			"RestartPreventExitStatus": "2", "LimitCORE": "0", "TimeoutStopSec": "40",
			"RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX AF_NETLINK",
			"EnvironmentFile":         "-/etc/weir/%p.env", "ExecStart": "/usr/local/bin/weir-" + program,
			"ExecReload": "/bin/kill -HUP $MAINPID",
		}
		switch program {
		case "proxy":
			want["User"] = "weir-proxy"
		case "advisor":
			want["StateDirectory"] = "weir-advisor"
		}
		environment := map[string]string{"proxy": "TAKEOVER=true GOTRACEBACK=crash",
			"advisor": "STATE_FILE=/var/lib/weir-advisor/state GOTRACEBACK=crash"}
		if have, want := strings.Join(keys["Environment"], " "),
			cmp.Or(environment[program], "GOTRACEBACK=crash"); have != want {
			t.Errorf("%s: Environment is %q, want %q", program, have, want)
		}
		for key, value := range want {
			if have := keys[key]; len(have) != 1 || have[0] != value {
				t.Errorf("%s: %s is %q, want %q", program, key, have, value)
			}
		}
	}
}

// A crash is distinguished from an invalid setting, after which systemd does not restart.
// SIGQUIT ends a Go program as a fatal error does.
func TestUnitsStartAgainAfterACrash(t *testing.T) {
	keys := unit(t, commonUnit)
	for _, program := range programs() {
		cmd := exec.Command("sh", "-c", "ulimit -c 0; exec "+binary(t, program))
		p := start(t, cmd, keys["Environment"]...)
		p.Logged(" - Started ")
		p.Signal(syscall.SIGQUIT)
		if status := p.Status(); status == 0 || fmt.Sprint(status) == keys["RestartPreventExitStatus"][0] {
			t.Errorf("%s: exit status %d", program, status)
		}
	}
}

// systemd verifies the units, with the paths of the programs on this machine.
func TestUnitsVerify(t *testing.T) {
	if !there(t, "systemd-analyze", "whether systemd takes the units") {
		return
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, filepath.Dir(commonUnit)), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, commonUnit), read(t, "systemd/"+commonUnit))
	t.Setenv("SYSTEMD_UNIT_PATH", dir+":") // and the usual ones
	for _, program := range programs() {
		file := filepath.Join(dir, strings.Replace(unitOf(program), "@", "@a", 1))
		write(t, file, strings.Replace(read(t, "systemd/"+unitOf(program)), "ExecStart=/usr/local/bin/weir-"+program,
			"ExecStart="+binary(t, program), 1))
		said, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", file).CombinedOutput()
		if err != nil || len(said) > 0 { // what it does not understand it passes over, and says so
			t.Errorf("%s: %v: %s", program, err, said)
		}
		// The exposure level is low; it is in tenths, at most 100.
		output(t, "systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=20", file)
	}
}

// The programs start with the units' settings, are healthy, and reload as the units say.
func TestUnitSettings(t *testing.T) {
	for _, program := range programs() {
		known := settings(t, program)
		var env []string
		for line := range strings.Lines(read(t, "systemd/weir-"+program+".env")) {
			line = strings.TrimSpace(line)
			name, value, ok := strings.Cut(strings.TrimPrefix(line, "#"), "=")
			if !ok {
				continue // a sentence
			}
			if !known[name] {
				t.Errorf("%s is no setting of %s", name, program)
			}
			if !strings.HasPrefix(line, "#") && name != "ADMIN_PORT" && name != "BIND" {
				env = append(env, name+"="+value)
			}
		}
		p := launch(t, program, env...)
		testkit.Eventually(t, program+" is healthy", func() bool {
			_, err := try(t.Context(), []string{"BIND=127.0.0.1", "PORT=" + p.Port()}, binary(t, program), "-healthcheck")
			return err == nil
		})
		reload := unit(t, commonUnit)["ExecReload"][0]
		output(t, strings.Fields(strings.Replace(reload, "$MAINPID", fmt.Sprint(p.Process.Pid), 1))...)
		p.Logged(" - Reloaded ")
	}
}
