package deploy

import (
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"weir/internal/test/testkit"
	"weir/proxy/store/redis/redistest"
)

// A composition holds the fields of compose.yaml that the tests check.
type composition struct {
	Services map[string]service
	Volumes  map[string]any
	Networks map[string]any
}

type service struct {
	Image       string
	Build       struct{ Context, Dockerfile, Target string }
	Command     []string
	Environment map[string]string
	Volumes     []string
	Ports       []string
	ReadOnly    bool     `yaml:"read_only"`
	CapDrop     []string `yaml:"cap_drop"`
	SecurityOpt []string `yaml:"security_opt"`
	MemLimit    string   `yaml:"mem_limit"`
	CPUs        float64  `yaml:"cpus"`
	PidsLimit   int      `yaml:"pids_limit"`
	Restart     string
	Healthcheck struct{ Test []string }
}

func composed(t *testing.T) composition { return composedFrom(t, "compose.yaml") }

func composedFrom(t *testing.T, file string) composition {
	t.Helper()
	var c composition
	if err := yaml.Unmarshal([]byte(read(t, file)), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestComposeIsValid(t *testing.T) {
	t.Setenv("ADMIN_TOKEN", "a-token") // without it nothing starts
	t.Setenv("DECISION_TOKEN", "another")
	if command := compose(t); command != nil {
		output(t, append(command, "-f", "compose.yaml", "config", "--quiet")...)
		output(t, append(command, "-f", "compose.yaml", "-f", "compose.postgres.yaml", "config", "--quiet")...)
		output(t, append(command, "-f", "compose.yaml", "-f", "compose.sidecar.yaml", "config", "--quiet")...)
		output(t, append(command, "-f", "compose.ratelimit.yaml", "config", "--quiet")...)
	}
}

// Every service has resource bounds, no privileges and a health check.
func TestComposeServices(t *testing.T) {
	c := composed(t)
	want := []string{"advisor", "grafana", "loadgen", "prometheus", "proxy", "redis", "target"}
	if have := slices.Sorted(maps.Keys(c.Services)); !slices.Equal(have, want) {
		t.Fatalf("services %v, want %v", have, want)
	}
	for name, s := range c.Services {
		s.check(t, c, name)
	}
}

// The PostgreSQL that replaces Redis is as bounded, and the proxy uses no other store.
func TestComposePostgres(t *testing.T) {
	c := composedFrom(t, "compose.postgres.yaml")
	if have := slices.Sorted(maps.Keys(c.Services)); !slices.Equal(have, []string{"postgres", "proxy"}) {
		t.Fatalf("services %v", have)
	}
	s, env := c.Services["postgres"], c.Services["proxy"].Environment
	s.check(t, c, "postgres")
	if host, set := env["REDIS_HOST"]; host != "" || !set || len(s.Ports) > 0 {
		t.Errorf("the proxy uses Redis %q, or the database has ports %v", host, s.Ports)
	}
	u, err := url.Parse(env["POSTGRES_URL"])
	if err != nil || u.Hostname() != "postgres" || u.User.Username() != s.Environment["POSTGRES_USER"] ||
		u.Path != "/"+s.Environment["POSTGRES_DB"] {
		t.Errorf("POSTGRES_URL is %q (%v), the database's settings are %v", env["POSTGRES_URL"], err, s.Environment)
	}
}

// The proxy uses only its master; the master decides for clients with the token and forwards
// nothing.
func TestComposeSidecar(t *testing.T) {
	c := composedFrom(t, "compose.sidecar.yaml")
	if have := slices.Sorted(maps.Keys(c.Services)); !slices.Equal(have, []string{"master", "proxy"}) {
		t.Fatalf("services %v", have)
	}
	s, env := c.Services["master"], c.Services["proxy"].Environment
	s.check(t, c, "master")
	master := s.Environment
	if master["TARGET_URL"] != "none" || master["REDIS_HOST"] != "redis" || len(s.Ports) > 0 ||
		!strings.HasPrefix(master["DECISION_TOKEN"], "${DECISION_TOKEN:?") {
		t.Errorf("the master's settings are %v, its ports %v", master, s.Ports)
	}
	if host, set := env["REDIS_HOST"]; host != "" || !set || env["ADAPTIVE_MODE"] != "false" ||
		env["REMOTE_TOKEN"] != master["DECISION_TOKEN"] || env["REMOTE_URL"] != "http://master:"+master["DECISION_PORT"] {
		t.Errorf("the sidecar's settings are %v", env)
	}
	port := testkit.FreePort(t)
	here := strings.NewReplacer("8083", port, "master:", "127.0.0.1:", "${ADAPTIVE_MODE:-shadow}", "shadow",
		"http://advisor:8084", "http://127.0.0.1:1")
	start := func(env map[string]string) *testkit.Program {
		settings := []string{"TARGET_URL=http://127.0.0.1:1"}
		for name, value := range env {
			if strings.HasPrefix(value, "${") && strings.Contains(value, "_TOKEN:?") {
				value = "secret" // required of whoever starts compose
			}
			if name != "REDIS_HOST" {
				settings = append(settings, name+"="+here.Replace(value))
			}
		}
		return launch(t, "proxy", settings...)
	}
	start(master)
	start(env).Await("GET /metrics", 200, "\nratelimiter_remote_connected 1\n")
}

// The binary serves with the command and the environment that Envoy Gateway gives envoyproxy/ratelimit.
func TestComposeRatelimit(t *testing.T) {
	c := composedFrom(t, "compose.ratelimit.yaml")
	if have := slices.Sorted(maps.Keys(c.Services)); !slices.Equal(have, []string{"ratelimit", "redis"}) {
		t.Fatalf("services %v", have)
	}
	for name, s := range c.Services {
		s.check(t, c, name)
	}
	s := c.Services["ratelimit"]
	if s.Image != "${RATELIMIT_IMAGE:-weir/ratelimit:latest}" || s.Build.Target != "ratelimit" ||
		!slices.Equal(s.Command, []string{"/bin/ratelimit"}) {
		t.Errorf("image %s, built from %+v, command %v", s.Image, s.Build, s.Command)
	}
	own := testkit.SelfSigned(time.Now().Add(time.Hour), "127.0.0.1")
	cert, key := testkit.WritePair(t, own)
	redis, http, grpc, debug, metrics := redistest.Start(t), testkit.FreePort(t), testkit.FreePort(t),
		testkit.FreePort(t), testkit.FreePort(t)
	here := strings.NewReplacer("/certs/tls.crt", cert, "/certs/tls.key", key, "/certs/ca.crt", cert,
		"${XDS_SERVER:-envoy-gateway:18001}", "127.0.0.1:1", "redis:6379", redis.Addr(), ":19001", "127.0.0.1:"+metrics)
	cmd := exec.Command(binary(t, "proxy"))
	cmd.Args[0] = s.Command[0]
	cmd.Env = append(os.Environ(), "PORT="+http, "GRPC_PORT="+grpc, "DEBUG_PORT="+debug)
	for name, value := range s.Environment {
		cmd.Env = append(cmd.Env, name+"="+here.Replace(value))
	}
	p := testkit.StartAt(t, cmd, "127.0.0.1:"+debug)
	p.At(http).Await("GET /healthcheck", 200, "OK")
	p.At(metrics).Await("GET /metrics", 200, "\nratelimiter_redis_connected 1\n")
	secure := p.At(grpc)
	secure.TLS = testkit.Trust(own, "127.0.0.1")
	secure.Require("GET /healthcheck", 200, "OK")
	for _, told := range []string{"REDIS_URL is read as REDIS_HOST", "RUNTIME_ROOT has no effect with CONFIG_TYPE=",
		"GRPC_SERVER_TLS_CA_CERT has no meaning here", "PROMETHEUS_MAPPER_YAML has no meaning here",
		"The xDS server is unavailable"} {
		p.Logged(told)
	}
	check := exec.Command(binary(t, "proxy"), "-healthcheck")
	check.Args[0], check.Env = s.Healthcheck.Test[1], cmd.Env
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("its health check: %v: %s", err, out)
	}
}

// check checks what must hold for every service.
func (s service) check(t *testing.T, c composition, name string) {
	t.Helper()
	if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) ||
		!slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
		t.Errorf("%s: may write its file system, keeps capabilities or may gain privileges", name)
	}
	if s.MemLimit == "" || s.CPUs == 0 || s.PidsLimit == 0 || s.Restart == "" {
		t.Errorf("%s: memory, processors or processes are not bounded, or it is not started again", name)
	}
	if len(s.Healthcheck.Test) < 2 || s.Healthcheck.Test[0] != "CMD" {
		t.Errorf("%s: its health check is %q, want a command without a shell", name, s.Healthcheck.Test)
	}
	for _, p := range s.Ports {
		if !strings.HasPrefix(p, "${PUBLISH_ADDRESS:-127.0.0.1}:") {
			t.Errorf("%s: port %s is open to everybody", name, p)
		}
	}
	for _, v := range s.Volumes {
		s.checkVolume(t, c, name, v)
	}
}

func (s service) checkVolume(t *testing.T, c composition, name, volume string) {
	t.Helper()
	source, rest, _ := strings.Cut(volume, ":")
	if !strings.HasPrefix(source, "./") {
		if _, known := c.Volumes[source]; !known {
			t.Errorf("%s: volume %s is not declared", name, source)
		}
		return
	}
	if _, err := os.Stat(source); err != nil || !strings.HasSuffix(rest, ":ro") {
		t.Errorf("%s: %s is not there, or could be written: %v", name, volume, err)
	}
}

// Our programs: their images, health checks, settings, and the services that they call.
func TestComposePrograms(t *testing.T) {
	c := composed(t)
	for program, port := range ports {
		s := c.Services[program]
		if s.Image != "weir/"+program+":${WEIR_VERSION:-latest}" || s.Build.Target != program || !exists(s.Build.Dockerfile) {
			t.Errorf("%s: image %s, built from %+v", program, s.Image, s.Build)
		}
		if token := s.Environment["ADMIN_TOKEN"]; !strings.HasPrefix(token, "${ADMIN_TOKEN:?") {
			t.Errorf("%s: ADMIN_TOKEN is %q, want the one of the environment, required", program, token)
		}
		if fmt.Sprint(s.Healthcheck.Test) != "[CMD /"+program+" -healthcheck]" {
			t.Errorf("%s: health check %v", program, s.Healthcheck.Test)
		}
		if len(s.Ports) != 1 || !strings.HasSuffix(s.Ports[0], fmt.Sprintf(":-%d}:%d", port, port)) {
			t.Errorf("%s: ports %v, want its own %d", program, s.Ports, port)
		}
		for name, value := range s.Environment {
			if u, err := url.Parse(value); err == nil && u.Scheme == "http" {
				if c.Services[u.Hostname()].Image == "" || u.Port() != fmt.Sprint(ports[u.Hostname()]) {
					t.Errorf("%s: %s=%s is not a service of ours", program, name, value)
				}
			}
		}
		known := settings(t, program)
		for name := range s.Environment {
			if !known[name] {
				t.Errorf("%s: %s is no setting", program, name)
			}
		}
	}
	if host := c.Services["proxy"].Environment["REDIS_HOST"]; c.Services[host].Image == "" {
		t.Errorf("REDIS_HOST=%s is not a service", host)
	}
}

// Every program starts with the settings of compose.
func TestComposeSettings(t *testing.T) {
	c := composed(t)
	inside := strings.NewReplacer("/etc/weir/plans", "plans", "/etc/weir", "config",
		"${ADAPTIVE_MODE:-shadow}", "shadow", "${ADVISOR_TIMEZONE:-UTC}", "UTC",
		"http://target:8081", "http://127.0.0.1:1", "http://advisor:8084", "http://127.0.0.1:1")
	for _, program := range programs() {
		var env []string
		for name, value := range c.Services[program].Environment {
			if name == "REDIS_HOST" || name == "TARGET_HEALTH_PATH" {
				continue // nothing is there to be asked
			}
			if strings.HasPrefix(value, "${ADMIN_TOKEN:?") {
				value = "secret" // required of whoever starts compose
			}
			env = append(env, name+"="+inside.Replace(value))
		}
		if p := launch(t, program, env...); program == "proxy" {
			p.Logged("rules=3, clients=2, source=file")
		}
	}
}

// The load generator accepts every plan.
func TestPlans(t *testing.T) {
	dir := t.TempDir()
	p := launch(t, "loadgen", "CONFIG_DIR="+dir)
	for _, file := range glob(t, "plans/*.json") {
		const proxy = `"http://proxy:8082/`
		text := read(t, file)
		if !strings.Contains(text, proxy) {
			t.Errorf("%s does not go through the proxy of compose", file)
		}
		write(t, filepath.Join(dir, filepath.Base(file)), strings.Replace(text, proxy, `"http://127.0.0.1:1/`, 1))
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		p.Require(testStart, 200, "", fmt.Sprintf(`{"config":%q}`, name))
		p.Require("POST /test/stop Content-Type=application/json", 200, "")
	}
}

// Grafana finds its dashboards and the Prometheus of compose.
func TestGrafanaProvisioning(t *testing.T) {
	g := composed(t).Services["grafana"]
	boards, home := "", g.Environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
	for _, v := range g.Volumes {
		if inside, ok := strings.CutPrefix(v, "./grafana/dashboards:"); ok {
			boards = strings.TrimSuffix(inside, ":ro")
		}
	}
	if boards == "" || !exists("deploy/grafana/dashboards/"+strings.TrimPrefix(home, boards+"/")) {
		t.Errorf("boards are at %s, and home at %s", boards, home)
	}
	if !strings.Contains(read(t, "grafana/provisioning/dashboards/weir.yml"), "path: "+boards+"}") {
		t.Errorf("weir.yml does not look into %s", boards)
	}
	if !strings.Contains(read(t, "grafana/provisioning/datasources/prometheus.yml"), "url: http://prometheus:9090\n") {
		t.Error("the data source is not the Prometheus of compose")
	}
	for _, file := range glob(t, "grafana/provisioning/*/*.yml") {
		var document map[string]any
		if err := yaml.Load([]byte(read(t, file)), &document); err != nil || document["apiVersion"] != 1 {
			t.Errorf("%s: %v, %v", file, document, err)
		}
	}
}
