package port

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/net/loop"
	"weir/internal/program/metric"
	"weir/internal/program/service"
	"weir/internal/test/testkit"
	"weir/proxy/store"
	"weir/proxy/store/simredis"
)

const shop = `
domain: shop
descriptors:
  - {key: two, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: user, value_to_metric: true, rate_limit: {unit: year, requests_per_unit: 5}}
`

// shopLimits are limits in a folder.
func shopLimits(t *testing.T, log *testkit.LogRecords) (folder string, l *Limits) {
	t.Helper()
	folder = t.TempDir()
	write(t, folder, "shop.yaml", shop)
	l = testkit.Must(NewLimits(Source{Path: folder}, log.Logger("DecisionService")))(t)
	return folder, l
}

// write writes a file in one step.
func write(t *testing.T, folder, name, text string) {
	t.Helper()
	hidden := filepath.Join(folder, "."+name)
	if err := os.WriteFile(hidden, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(hidden, filepath.Join(folder, name)); err != nil {
		t.Fatal(err)
	}
}

// shopPort is a port with these limits over a simulated Redis.
func shopPort(t *testing.T) (*Server, *simredis.Store) {
	t.Helper()
	s := testkit.Must(simredis.NewStore(simredis.Config{}))(t)
	t.Cleanup(s.Close)
	_, limits := shopLimits(t, new(testkit.LogRecords))
	return startOn(t, s, 0, limits), s
}

// entry is a request with one descriptor of one entry.
func entry(key, value, more string) string {
	return fmt.Sprintf(`{"domain":"shop","descriptors":[{"entries":[{"key":%q,"value":%q}]%s}]}`, key, value, more)
}

// Requests are answered as by envoyproxy/ratelimit, and the faults of invalid ones are reported.
func TestJSON(t *testing.T) {
	p, _ := shopPort(t)
	defer p.Drain(context.Background())
	post := func(body string) string { return request("POST", "/json", "secret", body) }
	for _, test := range []struct {
		request string
		status  int
		part    string
	}{
		{post(entry("two", "x", "")), 200,
			`{"overallCode":"OK","statuses":[{"code":"OK","currentLimit":{"requestsPerUnit":2,"unit":"YEAR"},"limitRemaining":1,"durationUntilReset":"`},
		{post(entry("two", "x", "")), 200, `"unit":"YEAR"},"durationUntilReset":"`},
		{post(entry("two", "x", "")), 429, `{"overallCode":"OVER_LIMIT","statuses":[{"code":"OVER_LIMIT","currentLimit"`},
		{post(entry("two", "x", "")), 429, `{"key":"X-Weir-Decision","value":"`},
		{post(entry("two", "x", `,"hitsAddend":"2","isNegativeHits":true`)), 200, `"limitRemaining":2`},
		{post(`{"domain":"unknown","descriptors":[{}]}`), 200, `{"overallCode":"OK","statuses":[{"code":"OK"}]}`},
		{post(`{"domain":"shop"}`), 400, `{"error":"rate limit descriptor list must not be empty","path":"descriptors"}`},
		{post(`{"domain":"shop","descriptors":[{"entry":[]}]}`), 400, `"path":"descriptors[0].entry"`},
		{post(`{"domain":"shop",`), 400, `not valid JSON: line 1, column 18`},
		{post(strings.Repeat(" ", 64<<10) + "{}"), 413, "65536"},
		{post(entry("two", "x", `,"limit":{"requestsPerUnit":1}`)), 400, `"path":"descriptors[0].limit.unit"`},
		{request("POST", "/json", "wrong", entry("two", "x", "")), 401, "DECISION_TOKEN"},
		{request("GET", "/json", "secret", ""), 405, "POST"},
		{"POST /json HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\n\r\n", 411, ""},
	} {
		c := testkit.Dial(t, p.Addr().String())
		c.Send(test.request)
		if res, body := c.Answer("POST"); res.StatusCode != test.status || !strings.Contains(body, test.part) {
			t.Errorf("%.160q: %d %q, want %d with %q", test.request, res.StatusCode, body, test.status, test.part)
		}
	}
	samples := scrape(t, p)
	for name, want := range map[string]float64{
		`ratelimiter_check_requests_total{api="json",code="429"}`:                            2,
		`ratelimiter_descriptors_apart_total`:                                                0,
		`ratelimiter_descriptors_clipped_total`:                                              0,
		`ratelimit_service_rate_limit_total_hits{domain="shop",key1="two"}`:                  4,
		`ratelimit_service_rate_limit_within_limit{domain="shop",key1="two"}`:                2,
		`ratelimit_service_rate_limit_over_limit{domain="shop",key1="two"}`:                  2,
		`ratelimit_service_rate_limit_near_limit{domain="shop",key1="two"}`:                  1,
		`ratelimit_service_rate_limit_over_limit_with_local_cache{domain="shop",key1="two"}`: 0,
		`ratelimit_service_rate_limit_shadow_mode{domain="shop",key1="two"}`:                 0,
		`ratelimit_service_rate_limit_domain_not_found{domain="unknown"}`:                    1,
		`ratelimit_service_global_shadow_mode`:                                               0,
		`ratelimit_service_should_rate_limit_error{err_type="service_error"}`:                4,
		`ratelimit_service_should_rate_limit_error{err_type="redis_error"}`:                  0,
		`ratelimit_service_total_requests{grpc_method="ShouldRateLimit"}`:                    10,
		`ratelimit_service_response_time_seconds_count{grpc_method="ShouldRateLimit"}`:       10,
		`ratelimit_service_config_load_success`:                                              1,
	} {
		if have, ok := samples[name]; !ok || have != want {
			t.Errorf("%s is %v (there: %t), want %v", name, have, ok, want)
		}
	}
}

func scrape(t *testing.T, p *Server) map[string]float64 {
	t.Helper()
	set := metric.New()
	p.Register(set)
	var text bytes.Buffer
	set.Write(&text)
	return testkit.Samples(t, text.String())
}

// Names that clients choose take a bounded number of series.
func TestSeriesAreBounded(t *testing.T) {
	s := newSeries()
	for i := range 3 * seriesMax {
		s.of("shop", fmt.Append(nil, "user_", i)).TotalHits.Add(1)
		s.notFound(fmt.Append(nil, i), 1)
	}
	if n := len(s.domains["shop"]); n != seriesMax+1 {
		t.Errorf("%d series", n)
	}
	if n := s.of("shop", []byte("new")).TotalHits.Load(); n != 2*seriesMax {
		t.Errorf("%d hits of others", n)
	}
	one, none := s.of("shop", []byte("user_7")).TotalHits.Load(), s.of("other", []byte("a")).TotalHits.Load()
	if one != 1 || none != 0 {
		t.Errorf("got %d hits of user_7 and %d of another domain, want 1 and 0", one, none)
	}
	long := bytes.Repeat([]byte("x"), nameBytesMax+1)
	few := newSeries()
	few.notFound(long, 1)
	if few.of("shop", long) != few.of("shop", []byte(other)) ||
		few.of("shop", long[1:]) == few.of("shop", []byte(other)) || few.unknown[other] == nil {
		t.Error("a long name is counted apart")
	}
	if len(s.unknown) != unknownMax+1 || s.unknown[other].Load() != 3*seriesMax-unknownMax {
		t.Errorf("%d unknown domains", len(s.unknown))
	}
}

// slow is a store whose answers come when the test lets them, or in a later turn of the loop.
type slow struct {
	store.Store
	turns bool // in a later turn
	lane  *slowLane
}

type slowLane struct {
	store.Lane
	waiting []func(now time.Time)
	post    func(func(now time.Time)) // nil: when the test lets it
}

func (s *slow) NewLane(post func(func(now time.Time))) store.Lane {
	s.lane = &slowLane{Lane: s.Store.NewLane(post)}
	if s.turns {
		s.lane.post = post
	}
	return s.lane
}

// Ask lets the ask wait.
func (l *slowLane) Ask(now time.Time, ask *store.Ask, ans *store.Answer, done store.Done) bool {
	counters := make([]store.Counter, len(ask.Counters))
	for i, c := range ask.Counters {
		c.Key = bytes.Clone(c.Key)
		counters[i] = c
	}
	n := ask.N
	answer := func(now time.Time) {
		var ans store.Answer
		l.Lane.Ask(now, &store.Ask{Counters: counters, N: n}, &ans, done)
		done(now, &ans)
	}
	if l.post != nil {
		l.post(answer)
	} else {
		l.waiting = append(l.waiting, answer)
	}
	return false
}

// Answers that come later, in any order, and for askers that have left, find their requests.
func TestAnswersLater(t *testing.T) {
	s := testkit.Must(simredis.NewStore(simredis.Config{}))(t)
	t.Cleanup(s.Close)
	_, limits := shopLimits(t, new(testkit.LogRecords))
	waits := &slow{Store: s}
	p := startOn(t, waits, 0, limits)
	defer p.Drain(context.Background())
	waiting := func(n int) {
		t.Helper()
		testkit.Eventually(t, "asks wait",
			func() bool { return on(p, func(time.Time, *side) int { return len(waits.lane.waiting) }) == n })
	}
	ask := func(user string) *testkit.Conn {
		c := testkit.Dial(t, p.Addr().String())
		same := fmt.Sprintf(`{"entries":[{"key":"user","value":%q}]}`, user) // asked apart the second time
		c.Send(request("POST", "/json", "secret", `{"domain":"shop","descriptors":[`+same+`,`+same+`]}`))
		return c
	}
	one := ask("one")
	waiting(2)
	gone := ask("gone")
	waiting(4)
	two := ask("two")
	waiting(6)
	gone.Reset()
	testkit.Eventually(t, "the connection is closed", func() bool {
		return on(p,
			func(_ time.Time, r *side) int { n := 0; r.loop.Each(func(*loop.Conn, loop.Handler) { n++ }); return n }) == 2
	})
	on(p, func(now time.Time, r *side) bool {
		for _, i := range []int{5, 0, 3, 2, 4, 1} {
			waits.lane.waiting[i](now)
		}
		return true
	})
	for _, c := range []*testkit.Conn{one, two} {
		if res, body := c.Answer("POST"); res.StatusCode != 200 || strings.Count(body, `"limitRemaining":4`) != 1 ||
			strings.Count(body, `"limitRemaining":3`) != 1 {
			t.Errorf("%d %s", res.StatusCode, body)
		}
	}
}

// If it needs limits, the port is not healthy without any.
func TestNeedsLimits(t *testing.T) {
	memory := testkit.Must(simredis.NewStore(simredis.Config{}))(t)
	t.Cleanup(memory.Close)
	_, loaded := shopLimits(t, new(testkit.LogRecords))
	empty := testkit.Must(NewLimits(Source{Path: t.TempDir(), Tolerant: true}, new(testkit.LogRecords).Logger("x")))(t)
	for _, test := range []struct {
		limits        *Limits
		needs, domain bool
		status        int
	}{{new(Limits), false, false, 200}, {new(Limits), true, false, 500}, {loaded, true, true, 200},
		{empty, true, false, 200}, {empty, false, true, 500}, {new(Limits), false, true, 500}} {
		p := startWith(t, Config{Limits: test.limits, Store: memory, NeedsLimits: test.needs, NeedsDomain: test.domain})
		c := testkit.Dial(t, p.Addr().String())
		c.Send(request("GET", "/healthcheck", "", ""))
		if res, _ := c.Answer("GET"); res.StatusCode != test.status {
			t.Errorf("needs limits: %t, a domain: %t, there are some: %t; %d, want %d", test.needs, test.domain,
				test.limits == loaded, res.StatusCode, test.status)
		}
		p.Drain(context.Background())
	}
}

// A changed file is applied. An invalid one is reported with file and line, and changes nothing.
func TestFollow(t *testing.T) {
	var log testkit.LogRecords
	folder, l := shopLimits(t, &log)
	ctx, stop := context.WithCancel(context.Background())
	changes, ended := make(chan bool, 100), make(chan bool)
	l.OnChange = func() { changes <- true }
	go func() {
		l.Follow(ctx)
		close(ended)
	}()
	const more = "domain: more\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 1}}]"
	write(t, folder, "more.yaml", more)
	testkit.Eventually(t, "both domains are in force", func() bool { n, _ := l.Domains().Len(); return n == 2 })
	testkit.Receive(t, changes, "a change")
	inForce := l.Domains()
	write(t, folder, "more.yaml",
		"domain: more\ndescriptors:\n  - {key: a, rate_limit: {unit: decade, requests_per_unit: 1}}\n  - {kee: b}")
	testkit.Eventually(t, "the fault is seen", l.failing.Load)
	if l.Domains() != inForce {
		t.Error("other limits are in force")
	}
	set := metric.New()
	l.register(set)
	var text bytes.Buffer
	set.Write(&text)
	if samples := testkit.Samples(t, text.String()); samples["ratelimiter_ratelimit_config_ignored"] != 1 ||
		samples["ratelimit_service_config_load_error"] < 1 || samples["ratelimit_service_config_load_success"] != 2 {
		t.Errorf("%v", samples)
	}
	write(t, folder, "more.yaml", shop)
	testkit.Eventually(t, "the next fault is seen", func() bool { return l.failed.Load() > 1 })
	write(t, folder, "more.yaml", more)
	testkit.Eventually(t, "the file is as before", func() bool { return !l.failing.Load() })
	if err := os.Remove(filepath.Join(folder, "more.yaml")); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "one domain is in force", func() bool { n, _ := l.Domains().Len(); return n == 1 })
	testkit.Eventually(t, "nothing is said to be ignored", func() bool { return !l.failing.Load() })
	stop()
	<-ended
	lines := strings.Join(log.Taken(), "\n")
	for _, part := range []string{
		"INFO DecisionService - Loaded domains=1 limits=2 files=1",
		"INFO DecisionService - Loaded domains=2 limits=3 files=2",
		"ERROR DecisionService - RATELIMIT_CONFIG ignored, the previous limits stay in force file=" + folder +
			"/more.yaml:3 reason=",
		`must be one of second, minute, hour, day, week, month, year, is "decade"; line 4: descriptors[1].kee`,
		`is that of another file too`,
		"INFO DecisionService - Valid again, with the limits in force files=2",
	} {
		if !strings.Contains(lines, part) {
			t.Errorf("%s is not logged in\n%s", part, lines)
		}
	}
}

// A folder has a bounded number of files.
func TestFilesMax(t *testing.T) {
	folder := t.TempDir()
	for i := range filesMax {
		write(t, folder, fmt.Sprintf("%d.yaml", i), fmt.Sprintf("domain: d%d", i))
	}
	write(t, folder, "README.md", "no limits")
	l := testkit.Must(NewLimits(Source{Path: folder}, new(testkit.LogRecords).Logger("DecisionService")))(t)
	if domains, _ := l.Domains().Len(); domains != filesMax {
		t.Errorf("%d domains", domains)
	}
	write(t, folder, "more.json", `{"domain":"more"}`)
	if err := l.Reload(); err == nil || !strings.Contains(err.Error(), "it has 1001 files, at most 1000 are read") {
		t.Errorf("got %v, want an error about 1001 files", err)
	}
}

// What cannot be read at the start ends the program.
func TestNewLimits(t *testing.T) {
	folder := t.TempDir()
	write(t, folder, "faulty.yaml", "domain: d\ndescriptors: [{}]")
	for _, test := range []struct{ path, want string }{
		{folder + "/none.yaml", "no such file or directory"},
		{t.TempDir(), "has no file whose name ends in .yaml, .yml or .json"},
		{folder, "faulty.yaml: line 2: descriptors[0].key: is missing"},
		{folder + "/faulty.yaml", "line 2: descriptors[0].key: is missing"},
		{"/dev/null", "not a regular file"},
	} {
		_, err := NewLimits(Source{Path: test.path}, nil)
		if wrong, ok := errors.AsType[*service.SettingError](err); !ok || wrong.Name != "RATELIMIT_CONFIG" ||
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.path, err, test.want)
		}
	}
}

// As by envoyproxy/ratelimit, files that are not valid do not end the start, and a folder without files has
// no limits.
func TestTolerant(t *testing.T) {
	var log testkit.LogRecords
	folder := t.TempDir()
	write(t, folder, "faulty.yaml", "domain: d\ndescriptors: [{}]")
	source := Source{Path: folder, Name: "RUNTIME_ROOT", Tolerant: true}
	l := testkit.Must(NewLimits(source, log.Logger("DecisionService")))(t)
	if l.Domains() != nil {
		t.Error("there are limits of a file that is not valid")
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan bool)
	go func() {
		l.Follow(ctx)
		close(ended)
	}()
	domains := func(want int) func() bool {
		return func() bool {
			if l.Domains() == nil {
				return false
			}
			n, _ := l.Domains().Len()
			return n == want
		}
	}
	testkit.Eventually(t, "the fault is told", l.failing.Load)
	write(t, folder, "faulty.yaml", shop)
	testkit.Eventually(t, "a domain is in force", domains(1))
	if err := os.Remove(filepath.Join(folder, "faulty.yaml")); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "no domain is in force", domains(0))
	write(t, folder, "faulty.yaml", shop)
	testkit.Eventually(t, "a domain is in force again", domains(1))
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "it is told that the folder is missing", l.failing.Load)
	if !domains(1)() {
		t.Error("the limits of a folder that was removed are not in force")
	}
	stop()
	<-ended
	lines := strings.Join(log.Taken(), "\n")
	for _, part := range []string{
		"ERROR DecisionService - RUNTIME_ROOT ignored, there are no limits file=" + folder + "/faulty.yaml:2 reason=",
		"WARN DecisionService - There are no limits for descriptors until RUNTIME_ROOT has files folder=" + folder + " reason=it has no file",
		"ERROR DecisionService - RUNTIME_ROOT ignored, the previous limits stay in force file=" + folder + " reason=no such",
	} {
		if strings.Count(lines, part) != 1 {
			t.Errorf("%s is not told once in\n%s", part, lines)
		}
	}
}

// A folder that does not exist has no limits either, until it appears.
func TestFolderAppears(t *testing.T) {
	var log testkit.LogRecords
	folder := filepath.Join(t.TempDir(), "a", "b")
	source := Source{Path: folder, Name: "RUNTIME_ROOT", Tolerant: true}
	l := testkit.Must(NewLimits(source, log.Logger("DecisionService")))(t)
	for range 2 {
		if err := l.Reload(); err != nil {
			t.Errorf("got %v, want no error while the folder does not exist", err)
		}
	}
	if domains := l.Domains(); domains == nil || domains.Domain([]byte("shop")) != nil {
		t.Errorf("%v are in force, want no limits", domains)
	}
	want := "WARN DecisionService - There are no limits for descriptors until RUNTIME_ROOT has files folder=" + folder +
		" reason=no such file or directory"
	if lines := strings.Join(log.Taken(), "\n"); strings.Count(lines, want) != 1 {
		t.Errorf("logged\n%s\nwant once\n%s", lines, want)
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, folder, "shop.yaml", shop)
	if err := l.Reload(); err != nil || l.Domains().Domain([]byte("shop")) == nil {
		t.Errorf("the limits of the new folder are not in force: %v", err)
	}
}

// Skipped entries of a folder are logged once, and again when they change, except hidden files.
func TestSkipped(t *testing.T) {
	var log testkit.LogRecords
	folder, l := shopLimits(t, &log)
	told := func() (n int) {
		t.Helper()
		if err := l.Reload(); err != nil {
			t.Fatal(err)
		}
		for _, line := range log.Taken() {
			if strings.Contains(line, "WARN") {
				n++
			}
		}
		return n
	}
	write(t, folder, ".hidden", "")
	if n := told(); n != 0 {
		t.Errorf("%d warnings, though nothing is skipped", n)
	}
	if err := os.Mkdir(filepath.Join(folder, "a"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"b.txt", "c.yaml.bak", "d"} {
		write(t, folder, name, shop)
	}
	if first, second := told(), told(); first != 1 || second != 0 {
		t.Errorf("%d warnings and then %d, want 1 and 0", first, second)
	}
	write(t, folder, "e", shop)
	if err := l.Reload(); err != nil {
		t.Fatal(err)
	}
	if line := strings.Join(log.Taken(), "\n"); !strings.Contains(line, "skipped=5 names=a, b.txt, c.yaml.bak") {
		t.Errorf("logged %s", line)
	}
}

// The limits that deploy/decision has for Envoy are read.
func TestShippedLimits(t *testing.T) {
	l := testkit.Must(NewLimits(Source{Path: "../../../deploy/decision/envoy/limits.yaml"},
		new(testkit.LogRecords).Logger("DecisionService")))(t)
	if domains, limits := l.Domains().Len(); domains != 1 || limits != 3 {
		t.Errorf("%d domains, %d limits", domains, limits)
	}
}
