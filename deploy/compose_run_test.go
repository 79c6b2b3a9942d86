package deploy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"weir/bench/lab/rig"
	"weir/internal/test/testkit"
)

// compose is the command that reads compose files: the plugin, or docker-compose.
func compose(t *testing.T) []string {
	t.Helper()
	if _, err := try(t.Context(), nil, "docker", "compose", "version"); err == nil {
		return []string{"docker", "compose"}
	}
	if there(t, "docker-compose", "the compose file") {
		return []string{"docker-compose"}
	}
	return nil
}

// A stack is the running services of compose.yaml: all but Grafana, which Debian does not have.
// Redis and Prometheus are Debian's.
type stack struct {
	command  []string
	env      []string
	services []string
	ids      map[string]string // of the containers by service
}

// stackToken is what the own endpoints of the stack's programs require.
const stackToken = "a-token"

// startStack builds all images and starts all containers on separate networks and loopback ports,
// until the test ends.
func startStack(t *testing.T) *stack {
	t.Helper()
	s := &stack{command: compose(t), services: append(programs(), "redis", "prometheus")}
	if s.command == nil || !there(t, "redis-server", "the compose file") || !there(t, "prometheus", "the compose file") {
		return nil
	}
	if err := images(); err != nil {
		t.Fatal(err)
	}
	s.env = []string{
		"COMPOSE_PROJECT_NAME=weir" + tag, "WEIR_VERSION=" + tag,
		"REDIS_IMAGE=" + fromDebian(t, "redis", "", "redis-server", "redis-cli"),
		"PROMETHEUS_IMAGE=" + fromDebian(t, "prometheus", `ENTRYPOINT ["/usr/bin/prometheus"]`, "prometheus", "promtool"),
		"PUBLISH_ADDRESS=" + loopback, "ADMIN_TOKEN=" + stackToken,
	}
	for _, service := range append(programs(), "prometheus") {
		s.env = append(s.env, strings.ToUpper(service)+"_PORT="+testkit.FreePort(t))
	}
	t.Cleanup(func() {
		if t.Failed() {
			logs, _ := s.try(t, "logs", "--no-color", "--tail", "20")
			t.Log(logs)
		}
		s.run(t, "down", "--volumes", "--timeout", "10")
	})
	s.run(t, append([]string{"up", "--detach", "--no-deps", "--no-build"}, s.services...)...)
	s.ids = make(map[string]string)
	const form = `{{.Label "com.docker.compose.service"}} {{.ID}}`
	list := output(t, "docker", "ps", "--all", "--filter", "label=com.docker.compose.project=weir"+tag, "--format", form)
	for line := range strings.Lines(list) {
		service, id, _ := strings.Cut(strings.TrimSpace(line), " ")
		s.ids[service] = id
	}
	return s
}

func (s *stack) try(t *testing.T, args ...string) (string, error) {
	t.Helper()
	// Also at the end of the test, when its context has ended.
	return try(contextOf(t), s.env, slices.Concat(s.command, []string{"-f", "compose.yaml"}, args)...)
}

func (s *stack) run(t *testing.T, args ...string) string {
	t.Helper()
	out := testkit.Must(s.try(t, args...))(t)
	return strings.TrimSpace(out)
}

// at returns the endpoint of a service.
func (s *stack) at(t *testing.T, service string, port int) testkit.Endpoint {
	t.Helper()
	addr := strings.TrimSpace(output(t, "docker", "port", s.ids[service], fmt.Sprint(port)))
	return testkit.Endpoint{T: t, Addr: addr, Token: stackToken}
}

// The compose file, with the engine: every container becomes healthy, traffic is limited, and
// limiting survives a restart of Redis.
func TestComposeRuns(t *testing.T) {
	if !engineThere(t) {
		return
	}
	s := startStack(t)
	if s == nil {
		return
	}
	t.Log("NOT TRIED: Grafana, whose image cannot be fetched")
	for _, service := range s.services {
		await(t, service, func() error {
			c := inspect(t, s.ids[service])
			if c.State.Health.Status != "healthy" {
				return fmt.Errorf("%s and %s: %v", c.State.Status, c.State.Health.Status, c.State.Health.Log)
			}
			if !c.HostConfig.ReadonlyRootfs || fmt.Sprint(c.HostConfig.CapDrop) != "[ALL]" {
				t.Errorf("%s runs with %+v", service, c.HostConfig)
			}
			return nil
		})
	}
	s.traffic(t, s.ids["redis"])
	s.scraped(t)
	stop := []string{"docker", "stop", "--time", "20"}
	for _, program := range programs() {
		stop = append(stop, s.ids[program])
	}
	output(t, stop...)
	for _, program := range programs() {
		if c := inspect(t, s.ids[program]); c.State.ExitCode != 0 {
			t.Errorf("%s ended with status %d", program, c.State.ExitCode)
		}
	}
}

// traffic sends more than the limit through the proxy, and stops and starts Redis.
func (s *stack) traffic(t *testing.T, redis string) {
	t.Helper()
	proxy, loadgen := s.at(t, "proxy", 8082), s.at(t, "loadgen", 8080)
	load := `{"limiterUrl":"http://proxy:8082/api/test","duration":120,"profile":{"type":"constant","params":{"rps":600}}}`
	loadgen.Require(testStart, 200, "", load)
	// limits waits until the mode is as wanted and requests are both admitted and refused, or
	// only admitted.
	limits := func(mode string, refusing bool) {
		t.Helper()
		what := fmt.Sprintf("wait for mode %s, refusing: %t", mode, refusing)
		var before rig.Metrics
		await(t, what, func() error {
			_, text, err := proxy.Try("GET /metrics")
			if err != nil {
				return err
			}
			now := rig.Metrics(testkit.Samples(t, text))
			if now.Sum("ratelimiter_mode", fmt.Sprintf("type=%q", mode)) != 1 {
				before = nil
				return fmt.Errorf("another mode is in force")
			}
			last := before
			before = now
			if last == nil {
				return fmt.Errorf("the mode is new")
			}
			grown := func(decision string) float64 {
				label := fmt.Sprintf("decision=%q", decision)
				return now.Sum("ratelimiter_requests_total", label) - last.Sum("ratelimiter_requests_total", label)
			}
			if grown("forwarded") == 0 || (grown("rejected") > 0) != refusing {
				return fmt.Errorf("%v forwarded, %v rejected", grown("forwarded"), grown("rejected"))
			}
			return nil
		})
	}
	limits("normal", true)
	output(t, "docker", "stop", "--time", "2", redis)
	limits("failopen", false)
	output(t, "docker", "start", redis)
	limits("normal", true)
	loadgen.Require("POST /test/stop Content-Type=application/json", 200, "")
}

// scraped checks that the Prometheus of the stack sees all programs by their
// names, and has the rules.
func (s *stack) scraped(t *testing.T) {
	t.Helper()
	prometheus := s.at(t, "prometheus", 9090)
	await(t, "all programs are scraped", func() error {
		samples, err := query(prometheus, `up == 1`)
		if err != nil {
			return err
		}
		up := make(map[string]bool)
		for _, one := range samples {
			up[one.Metric["job"]] = true
		}
		for _, program := range programs() {
			if !up[program] {
				return fmt.Errorf("%s is not up, only %v", program, slices.Sorted(maps.Keys(up)))
			}
		}
		return nil
	})
	await(t, "the rules evaluate", func() error {
		samples, err := query(prometheus, `weir:requests:rate1m`)
		if err == nil && len(samples) == 0 {
			err = fmt.Errorf("nothing is recorded")
		}
		return err
	})
}
