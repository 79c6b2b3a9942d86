package deploy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/store/postgres/postgrestest"
	"weir/proxy/store/redis/redistest"
)

// A platform is the programs of a real run and a Prometheus with the configuration of this folder.
type platform struct {
	at         map[string]testkit.Endpoint // by program
	prometheus testkit.Endpoint
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
	p := &platform{at: make(map[string]testkit.Endpoint)}
	p.at["target"] = launch(t, "target", "TARGET_WORKERS=1", "TARGET_DELAY=4ms", "TARGET_DELAY_DIST=exponential").Endpoint
	p.at["advisor"] = launch(t, "advisor", "CAPACITY_RPS=250", "STATE_FILE="+filepath.Join(t.TempDir(), "state")).Endpoint
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, rules, "rules: [{id: orders, match: {methods: [POST], path: /api/test}, limit: {algorithm: gcra, limit: "+
		"5, window: 1, burst: 1}, defer: {when: always}}]\n")
	// The advisor's time is compressed from forty minutes to a second: it needs a quarter of a day
	// of history.
	p.at["proxy"] = launch(t, "proxy", "TARGET_URL=http://"+p.at["target"].Addr, "REDIS_HOST="+redistest.Start(t).Addr(),
		"RATE_LIMIT_LIMIT="+platformLimit, "REDIS_TIMEOUT=2s", "GATE=shadow", "RULES_FILE="+rules,
		"ADAPTIVE_MODE=shadow", "ADVISOR_URL=http://"+p.at["advisor"].Addr, "ADAPTIVE_UPDATE_INTERVAL=40m",
		"ADAPTIVE_TIME_SCALE=2400", "DEFER_URL=file:"+filepath.Join(t.TempDir(), "deferred")).Endpoint
	keepAsking(t, p.at["proxy"], "POST", 50*time.Millisecond)
	p.at["loadgen"] = launch(t, "loadgen").Endpoint
	p.startOnPostgres(t)
	p.startPrometheus(t)
	p.at["loadgen"].Require(testStart, 200, "", fmt.Sprintf(overload, p.at["proxy"].Addr))
	return p
}

// testStart has loadgen start a test.
const testStart = "POST /test/start Content-Type=application/json"

// onPostgres is the name of the platform's proxy with limits in PostgreSQL.
const onPostgres = "postgres"

// startOnPostgres starts that proxy and a PostgreSQL, and sends GET and POST requests, some of
// which are refused.
func (p *platform) startOnPostgres(t *testing.T) {
	t.Helper()
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, rules, "rules: [{id: user, key: [method], limit: {algorithm: gcra, limit: 20, window: 1, burst: 1}}]\n")
	p.at[onPostgres] = launch(t, "proxy", "TARGET_URL=http://"+p.at["target"].Addr,
		"POSTGRES_URL="+postgrestest.Start(t).URL("weir", "weir"), "POSTGRES_TIMEOUT=2s",
		"RULES_FILE="+rules, "RATE_LIMIT_ALGORITHM=off", "GATE=off").Endpoint
	for _, method := range []string{"GET", "POST"} {
		keepAsking(t, p.at[onPostgres], method, 10*time.Millisecond)
	}
}

// keepAsking sends one request after another with pauses, until the test ends.
func keepAsking(t *testing.T, at testkit.Endpoint, method string, pause time.Duration) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for t.Context().Err() == nil {
			_, _, _ = at.Try(method + " /api/test")
			time.Sleep(pause) // how often, not until when
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
		at, started := p.at[program]
		if !started {
			continue
		}
		scraped := fmt.Sprintf(`"%s:%d"`, program, port)
		if !strings.Contains(config, scraped) {
			t.Fatalf("prometheus.yml does not scrape %s", scraped)
		}
		to := strconv.Quote(at.Addr)
		if program == "proxy" {
			to += ", " + strconv.Quote(p.at[onPostgres].Addr)
		}
		config = strings.ReplaceAll(config, scraped, to)
	}
	write(t, filepath.Join(dir, "prometheus.yml"), config)
	for _, name := range glob(t, "prometheus/rules/*.yml") {
		write(t, filepath.Join(dir, "rules", filepath.Base(name)), read(t, name))
	}
	p.prometheus = testkit.Endpoint{T: t, Addr: testkit.FreeAddr(t)}
	testkit.StartAt(t, exec.Command("prometheus", "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+p.prometheus.Addr),
		p.prometheus.Addr)
	p.prometheus.Await("GET /-/ready", 200, "")
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
func ask(prometheus testkit.Endpoint, path string, parameters url.Values, data any) error {
	res, text, err := prometheus.Try("GET /api/v1/" + path + "?" + parameters.Encode())
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %v: %s: %s", path, parameters, res.Status, text)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(text), &struct{ Data any }{data})
}

// A sample is one element of the answer to a query.
type sample struct {
	Metric map[string]string
	Value  [2]any // when, and the number as text
}

// query runs an expression and returns the samples that are numbers.
func query(prometheus testkit.Endpoint, expr string) ([]sample, error) {
	var data struct{ Result []sample }
	if err := ask(prometheus, "query", url.Values{"query": {expr}}, &data); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(data.Result, func(s sample) bool { return s.Value[1] == "NaN" }), nil
}

// names returns the names of all metrics of a Prometheus.
func names(t *testing.T, prometheus testkit.Endpoint) map[string]bool {
	t.Helper()
	var list []string
	if err := ask(prometheus, "label/__name__/values", nil, &list); err != nil {
		t.Fatal(err)
	}
	known := make(map[string]bool)
	for _, n := range list {
		known[n] = true
	}
	return known
}
