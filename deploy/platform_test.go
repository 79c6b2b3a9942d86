package deploy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/bench/lab/rig"
	"weir/internal/test/testkit"
)

// A platform is the programs of a real run and a Prometheus with the configuration of this folder.
type platform struct {
	addrs      map[string]string // by program
	prometheus string            // base URL of its API
}

// overload offers twice the platform's limit, so that requests are both admitted and refused, and
// the only worker of the target has a queue.
const (
	platformLimit = "150"
	overload      = `{"limiterUrl":"http://%s/api/test","duration":120,"seed":1,"profile":{"type":"constant","params":{"rps":300}}}`
)

// startPlatform starts Redis, the programs and Prometheus under load, until the test ends.
func startPlatform(t *testing.T) *platform {
	t.Helper()
	redis := testkit.Must(rig.StartRedis(t.Context()))(t)
	t.Cleanup(func() { _ = redis.End() })
	p := &platform{addrs: make(map[string]string)}
	_, p.addrs["target"] = launch(t, "target", "TARGET_WORKERS=1", "TARGET_DELAY=4ms", "TARGET_DELAY_DIST=exponential")
	env := []string{
		"TARGET_URL=http://" + p.addrs["target"], "REDIS_HOST=" + redis.Addr, "RATE_LIMIT_LIMIT=" + platformLimit,
		"REDIS_TIMEOUT=2s", "GATE=shadow",
	}
	_, p.addrs["advisor"] = launch(t, "advisor", "CAPACITY_RPS=250", "STATE_FILE="+filepath.Join(t.TempDir(), "state"))
	// The advisor's time is compressed from forty minutes to a second: it needs a quarter of a day
	// of history.
	env = append(env, "ADAPTIVE_MODE=shadow", "ADVISOR_URL=http://"+p.addrs["advisor"], "ADAPTIVE_UPDATE_INTERVAL=40m",
		"ADAPTIVE_TIME_SCALE=2400")
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, rules, "rules: [{id: orders, match: {methods: [POST], path: /api/test}, limit: {algorithm: gcra, limit: "+
		"5, window: 1, burst: 1}, defer: {when: always}}]\n")
	_, p.addrs["proxy"] = launch(t, "proxy",
		append(env, "RULES_FILE="+rules, "DEFER_URL=file:"+filepath.Join(t.TempDir(), "deferred"))...)
	keepAsking(t, http.MethodPost, "http://"+p.addrs["proxy"]+"/api/test", 50*time.Millisecond)
	_, p.addrs["loadgen"] = launch(t, "loadgen")
	p.startOnPostgres(t)
	p.startPrometheus(t)
	if _, err := rig.Post(t.Context(), "http://"+p.addrs["loadgen"]+"/test/start",
		fmt.Sprintf(overload, p.addrs["proxy"])); err != nil {
		t.Fatal(err)
	}
	return p
}

// onPostgres is the name of the platform's proxy with limits in PostgreSQL.
const onPostgres = "postgres"

// startOnPostgres starts that proxy and a PostgreSQL, and sends GET and POST requests, some of
// which are refused.
func (p *platform) startOnPostgres(t *testing.T) {
	t.Helper()
	server := testkit.Must(rig.StartPostgres(t.Context()))(t)
	t.Cleanup(func() { _ = server.End() })
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, rules, "rules: [{id: user, key: [method], limit: {algorithm: gcra, limit: 20, window: 1, burst: 1}}]\n")
	_, p.addrs[onPostgres] = launch(t, "proxy", "TARGET_URL=http://"+p.addrs["target"], "POSTGRES_URL="+server.URL(),
		"POSTGRES_TIMEOUT=2s",
		"RULES_FILE="+rules, "RATE_LIMIT_ALGORITHM=off", "GATE=off")
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		keepAsking(t, method, "http://"+p.addrs[onPostgres]+"/api/test", 10*time.Millisecond)
	}
}

// keepAsking sends one request after another with pauses, until the test ends.
func keepAsking(t *testing.T, method, url string, pause time.Duration) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for t.Context().Err() == nil {
			req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
			if err != nil {
				t.Error(err)
				return
			}
			if resp, err := http.DefaultClient.Do(req); err == nil {
				_ = resp.Body.Close()
			}
			_ = rig.Wait(t.Context(), pause) // how often, not until when
		}
	}()
	t.Cleanup(func() { <-done })
}

// startPrometheus starts a Prometheus with the configuration of this folder, except for addresses
// and an interval of 1 s instead of 5 s.
func (p *platform) startPrometheus(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	config := strings.ReplaceAll(read(t, "prometheus/prometheus.yml"), "interval: 5s", "interval: 1s")
	for program, port := range ports {
		addr, started := p.addrs[program]
		if !started {
			continue
		}
		scraped := fmt.Sprintf(`"%s:%d"`, program, port)
		if !strings.Contains(config, scraped) {
			t.Fatalf("prometheus.yml does not scrape %s", scraped)
		}
		to := strconv.Quote(addr)
		if program == "proxy" {
			to += ", " + strconv.Quote(p.addrs[onPostgres])
		}
		config = strings.ReplaceAll(config, scraped, to)
	}
	write(t, filepath.Join(dir, "prometheus.yml"), config)
	for _, name := range glob(t, "prometheus/rules/*.yml") {
		write(t, filepath.Join(dir, "rules", filepath.Base(name)), read(t, name))
	}
	addr := testkit.FreeAddr(t)
	running(t, "prometheus", nil, "prometheus", "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+addr)
	p.prometheus = "http://" + addr
	await(t, "start Prometheus", func() error {
		_, err := fetch(t.Context(), p.prometheus+"/-/ready")
		return err
	})
}

// ports are the programs' own.
var ports = map[string]int{"loadgen": 8080, "target": 8081, "proxy": 8082, "advisor": 8084}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	testkit.WriteFile(t, name, content)
}

// ask sends a request to the API of a Prometheus and decodes the data of the answer.
func ask(t *testing.T, base, path string, parameters url.Values, data any) error {
	t.Helper()
	text, err := fetch(t.Context(), base+"/api/v1/"+path+"?"+parameters.Encode())
	if err != nil {
		return err
	}
	return json.Unmarshal(text, &struct{ Data any }{data})
}

// A sample is one element of the answer to a query.
type sample struct {
	Metric map[string]string
	Value  [2]any // when, and the number as text
}

// query runs an expression and returns the samples that are numbers.
func query(t *testing.T, base, expr string) ([]sample, error) {
	t.Helper()
	var data struct{ Result []sample }
	if err := ask(t, base, "query", url.Values{"query": {expr}}, &data); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(data.Result, func(s sample) bool { return s.Value[1] == "NaN" }), nil
}

// names returns the names of all metrics of a Prometheus.
func names(t *testing.T, base string) map[string]bool {
	t.Helper()
	var list []string
	if err := ask(t, base, "label/__name__/values", nil, &list); err != nil {
		t.Fatal(err)
	}
	known := make(map[string]bool)
	for _, n := range list {
		known[n] = true
	}
	return known
}
