package plan

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/data/strict"
	"weir/internal/net/http1"
	"weir/internal/test/testkit"
	"weir/loadgen/pace"
)

var now = time.Date(2026, 1, 19, 16, 30, 0, 0, time.UTC)

// with returns a good configuration with one more field, or one that replaces
// the default.
func with(fields ...string) string {
	all := map[string]string{
		"limiterUrl": `"http://proxy:8082/api/test"`, "duration": "60",
		"profile": `{"type":"constant","params":{"rps":100}}`,
	}
	for i := 0; i < len(fields); i += 2 {
		all[fields[i]] = fields[i+1]
	}
	var parts []string
	for _, name := range sortedKeys(all) {
		if all[name] != "" {
			parts = append(parts, fmt.Sprintf("%q:%s", name, all[name]))
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func options(fields string) string { return with("requestOptions", "{"+fields+"}") }

func ExampleParse() {
	p, err := Parse(now, []byte(`{
		"limiterUrl": "http://proxy:8082/api/test", "duration": 60,
		"profile": {"type": "constant", "params": {"rps": 100}}
	}`), "")
	if err != nil {
		panic(err)
	}
	fmt.Println(p.ProfileText, p.Schedule.Expected(), "requests")
	fmt.Println(strings.ReplaceAll(string(p.Request.Render(new([]byte), 0)), "\r", ""))
	// Output:
	// constant (rps=100) 6000 requests
	// GET /api/test HTTP/1.1
	// Host: proxy:8082
	// User-Agent: weir-loadgen
	// Accept: */*
}

// Each bad configuration is refused with the path of the fault and a sentence.
func TestRefused(t *testing.T) {
	for _, c := range []refused{
		{`{`, "", "have the end"},
		{`[]`, "", "must be an object, is a list"},
		{with("rps", "1"), "rps", "unknown"},
		{with("Duration", "1"), "Duration", "duration"},
		{with("limiterUrl", ""), "limiterUrl", "is missing"},
		{with("limiterUrl", "null"), "limiterUrl", "is missing"},
		{with("limiterUrl", `""`), "limiterUrl", `must be a URL like http://proxy:8082/api/test, is ""`},
		{with("limiterUrl", `"proxy:8082"`), "limiterUrl", "must be a URL like"},
		{with("limiterUrl", `"/api/test"`), "limiterUrl", "must be a URL like"},
		{with("limiterUrl", `"http://"`), "limiterUrl", "must be a URL like"},
		{with("limiterUrl", `"http://a b/"`), "limiterUrl", "must be a URL like"},
		{with("limiterUrl", `"ftp://a/"`), "limiterUrl", "must begin with http://"},
		{with("limiterUrl", `"http://me:secret@a/"`), "limiterUrl", "must not hold a user"},
		{with("limiterUrl", `"http://a/#top"`), "limiterUrl", "fragment"},
		{with("limiterUrl", `"http://a:65536/"`), "limiterUrl", "port from 1 to 65535"},
		{with("limiterUrl", `"http://a:0/"`), "limiterUrl", "port from 1 to 65535"},
		{with("limiterUrl", `"http://:80/"`), "limiterUrl", "must have a host"},
		{with("limiterUrl", `"http://a/?q=ü"`), "limiterUrl", "in its query"},
		{with("duration", ""), "duration", "is missing"},
		{with("duration", "0"), "duration", "must be from 0.001 to 604800 seconds, is 0"},
		{with("duration", "604801"), "duration", "must be from"},
		{with("duration", `"60"`), "duration", "must be a number"},
		{with("profile", ""), "profile", "is missing"},
		{with("profile", `{"params":{"rps":1}}`), "profile.type", "is missing"},
		{with("profile", "null"), "profile", "is missing"},
		{with("profile", `{}`), "profile.type", "is missing"},
		{with("profile", `{"type":null}`), "profile.type", "is missing"},
		{with("profile", `{"type":""}`), "profile.type",
			`must be constant, burst, sinusoidal, poisson, ddos, ramp, steps or trace, is ""`},
		{with("profile", `{"type":"zigzag","params":{}}`), "profile.type",
			`must be constant, burst, sinusoidal, poisson, ddos, ramp, steps or trace, is "zigzag"`},
		{with("profile", `{"type":"constant"}`), "profile.params", "is missing"},
		{with("profile", `{"type":"constant","params":{}}`), "profile.params.rps", "is missing"},
		{with("profile", `{"type":"constant","params":{"rps":"fast"}}`), "profile.params.rps", "must be a number"},
		{with("profile", `{"type":"constant","params":{"rps":0}}`), "profile.params.rps",
			"must be a number from 0.001 to 10000000, is 0"},
		{with("profile", `{"type":"constant","params":{"rps":1e8}}`), "profile.params.rps",
			"from 0.001 to 10000000, is 1e+08"},
		{with("profile", `{"type":"constant","params":{"rps":1,"baseRps":1}}`), "profile.params.baseRps", "unknown"},
		{with("profile", `{"type":"constant","params":{"rps":1},"arrivals":"gamma"}`), "profile.arrivals",
			"must be uniform or poisson, is"},
		{with("concurrency", "-1"), "concurrency", "from 0 (chosen) to 60000"},
		{with("concurrency", "60001"), "concurrency", "from 0 (chosen) to 60000"},
		{with("concurrency", "1.5"), "concurrency", "must be"},
		{with("protocol", `"HTTP/2"`), "protocol", `must be http1, h2c or h2, is "HTTP/2"`},
		{with("protocol", `""`), "protocol", `must be http1, h2c or h2, is ""`},
		{with("protocol", `"h2"`), "protocol", "must be h2c for an http URL, is h2"},
		{with("protocol", `"h2c"`, "limiterUrl", `"https://a/"`), "protocol", "must be h2 for an https URL, is h2c"},
		{with("streams", "1"), "streams", "must be 0 with HTTP/1.1"},
		{with("protocol", `"h2c"`, "streams", "-1"), "streams", "must be from 0 (100) to 10000, is -1"},
		{with("protocol", `"h2c"`, "streams", "10001"), "streams", "must be from 0 (100) to 10000, is 10001"},
		{with("protocol", `"h2c"`, "requestOptions", `{"keepAlive":false}`), "requestOptions.keepAlive",
			"must be true with HTTP/2"},
		{options(`"grpc":true`), "requestOptions.grpc", "needs protocol h2c or h2"},
		{with("protocol", `"h2c"`, "requestOptions", `{"grpc":true,"method":"GET"}`), "requestOptions.method",
			`must be POST with gRPC, is "GET"`},
		{options(`"method":"TRACE","bodyBase64":"AA=="`), "requestOptions.bodyBase64", "must be empty: TRACE has none"},
		{options(`"method":"POST","bodyBase64":"AA"`), "requestOptions.bodyBase64",
			"must be base64 with padding: illegal base64 data"},
		{options(`"method":"POST","body":"a","bodyBase64":"AA=="`), "requestOptions.bodyBase64",
			"must be empty: there is requestOptions.body"},
		{with("shard", `{"index":0}`), "shard.of", "is missing"},
		{with("shard", `{"of":2}`), "shard.index", "is missing"},
		{with("shard", `{}`), "shard.index", "is missing"},
		{with("shard", `{"index":null,"of":null}`), "shard.index", "is missing"},
		{with("shard", `{"index":2,"of":2}`), "shard.index", "must be from 0 to 1"},
		{with("shard", `{"index":0,"of":0}`), "shard.of", "at least 1"},
		{with("startAt", `"tomorrow"`), "startAt", "must be a time like"},
		{with("startAt", `"2026-01-19T16:29:58Z"`), "startAt",
			"must not be in the past, is 2026-01-19T16:29:58Z; now it is 2026-01-19T16:30:00Z"},
		{with("startAt", `"2027-01-20T16:30:01Z"`), "startAt", "within a year"},
		{with("thresholds", `{"latency.p42":"<1"}`), `thresholds["latency.p42"]`,
			"is not a threshold; allowed: latency, latencySuccess,"},
		{with("thresholds", `{"errorShare":"0.1"}`), "thresholds.errorShare", "must be <"},
		{with("thresholds", `{"errorShare":0.1}`), "thresholds.errorShare", "must be a string"},
		{with("config", `"other"`), "config", "must be the only field"},
		{`{"config":"other","seed":0}`, "config", "must be the only field"},
		{`{"config":"other"}`, "config", "CONFIG_DIR, which is not set"},
		{options(`"verb":"GET"`), "requestOptions.verb", "unknown"},
		{options(`"method":"get"`), "requestOptions.method", `is "get"`},
		{options(`"method":"CONNECT"`), "requestOptions.method", "must be GET"},
		{options(`"method":"TRACE","body":"x"`), "requestOptions.body", "must be empty"},
		{options(`"timeout":0`), "requestOptions.timeout", "must be from 0.001 to 300 seconds"},
		{options(`"timeout":301`), "requestOptions.timeout", "must be from"},
		{options(`"headers":{"A B":"x"}`), `requestOptions.headers["A B"]`, "the name must be of letters"},
		{options(`"headers":{"":"x"}`), `requestOptions.headers[""]`, "the name must be"},
		{options(`"headers":{"X-A":"1","x-a":"2"}`), "requestOptions.headers.x-a", "is given twice: also as X-A"},
		{options(`"headers":{"Connection":"close"}`), "requestOptions.headers.Connection", "use requestOptions.keepAlive"},
		{options(`"headers":{"content-length":"5"}`), "requestOptions.headers.content-length", "where the message ends"},
		{options(`"headers":{"X-A":"1\r\nX-B: 2"}`), "requestOptions.headers.X-A",
			"column 2: the value must not have control characters"},
	} {
		refuses(t, c)
	}
}

// A refused is a configuration with the path of what is wrong, and a part of what is said.
type refused struct{ config, path, sentence string }

func refuses(t *testing.T, c refused) {
	t.Helper()
	p, err := Parse(now, []byte(c.config), "")
	if err == nil {
		t.Errorf("%s was accepted: %+v", c.config, p)
		return
	}
	e, ok := errors.AsType[strict.Fault](err)
	if !ok || e.Path != c.path || !strings.Contains(err.Error(), c.sentence) {
		t.Errorf("%s:\n got %v\nwant path %q and %q", c.config, err, c.path, c.sentence)
	}
}

// All faults are reported at once, each with its line and path, and once.
func TestAllFaultsAreTold(t *testing.T) {
	_, err := Parse(now, []byte(`{
		"duration": -1,
		"concurrency": 1.5,
		"profile": {
			"type": "burst",
			"params": {"baseRps": "many",
				"spikeRps": 1, "spikeRps": 1,
				"spikeDuration": -1}
		},
		"rate": 5
	}`), "")
	const want = `limiterUrl: is missing; ` +
		`line 2: duration: must be from 0.001 to 604800 seconds, is -1; ` +
		`line 3: concurrency: must be a whole number, is 1.5; ` +
		`line 6: profile.params.baseRps: must be a number, is "many"; ` +
		`line 7: profile.params.spikeRps: given twice; ` +
		`line 10: rate: unknown field; allowed: config, limiterUrl, duration, profile, protocol, concurrency, streams, seed, shard, startAt, thresholds, requestOptions, requestsPerThread`
	if fmt.Sprint(err) != want {
		t.Errorf("faults:\n got %v\nwant %s", err, want)
	}
}

// A field that is null has its default, as one that is absent.
// What a part of the wrong type lacks is not told, nor what would follow from a parameter that could
// not be read.
func TestNoFaultFollowsFromAnother(t *testing.T) {
	for _, c := range []struct{ config, path string }{
		{with("shard", `5`), "shard"},
		{with("profile", `"constant"`), "profile"},
		{with("profile", `{"type":"ddos","params":{"minRps":1,"maxRps":9,"maxSpikeDuration":1,"minIdleTime":1,"maxIdleTime":1e999}}`), "profile.params.maxIdleTime"},
	} {
		var faults strict.Faults
		if _, err := Parse(now, []byte(c.config), ""); !errors.As(err, &faults) || len(faults) != 1 ||
			faults[0].Path != c.path {
			t.Errorf("%s: %v, want one fault at %s", c.config, err, c.path)
		}
	}
}

func TestDefaults(t *testing.T) {
	p := parse(t, with())
	nulls := parse(t, with("shard", "null", "startAt", "null", "requestOptions",
		`{"method":null,"headers":null,"timeout":null,"keepAlive":null}`))
	if got, want := fmt.Sprint(nulls.Config), fmt.Sprint(p.Config); got != want {
		t.Errorf("with null the defaults are %s, without %s", got, want)
	}
	if p.Timeout != 5*time.Second || !p.KeepAlive || p.Method != http1.GET || p.Connections != 0 {
		t.Errorf("defaults are timeout %v, keepAlive %v, %v, %d connections", p.Timeout, p.KeepAlive, p.Method, p.Connections)
	}
	if p.Host != "proxy" || p.Port != "8082" || !p.StartAt.IsZero() || len(p.Warnings) != 0 {
		t.Errorf("target %s:%s, start %v, warnings %q", p.Host, p.Port, p.StartAt, p.Warnings)
	}
}

// What is written in the configuration is what is planned.
func TestFields(t *testing.T) {
	p := parse(t, with("concurrency", "7", "startAt", `"2026-01-19T17:30:10.5+01:00"`, "shard", `{"index":1,"of":3}`,
		"requestsPerThread", "10", "seed", "42", "thresholds", `{"latency.p95":"<0.05","successShare":">=0.9"}`,
		"requestOptions", `{"timeout":0.25,"keepAlive":false}`))
	if p.Connections != 7 || p.Timeout != 250*time.Millisecond || p.KeepAlive || p.Config.Seed != 42 {
		t.Errorf("%d connections, timeout %v, keepAlive %v, seed %d", p.Connections, p.Timeout, p.KeepAlive, p.Config.Seed)
	}
	if want := now.Add(10*time.Second + 500*time.Millisecond); !p.StartAt.Equal(want) {
		t.Errorf("starts at %v, want %v", p.StartAt, want)
	}
	if want := pace.New(pace.Config{Profile: p.Profile, Length: time.Minute, Seed: 42,
		Shard: pace.Shard{Index: 1, Of: 3}}); p.Schedule != want {
		t.Errorf("schedule %+v, want %+v", p.Schedule, want)
	}
	if len(p.Thresholds) != 2 || p.Thresholds[0].Name != "latency.p95" {
		t.Errorf("thresholds %+v", p.Thresholds)
	}
	if len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "requestsPerThread") {
		t.Errorf("warnings %q", p.Warnings)
	}
}

func TestRequestBytes(t *testing.T) {
	const fields = "User-Agent: weir-loadgen\r\nAccept: */*\r\n"
	for _, c := range []struct {
		config, want string
	}{
		{with("limiterUrl", `"http://a"`), "GET / HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n"},
		{with("limiterUrl", `"http://[::1]:81/a%2Fb?x=1"`), "GET /a%2Fb?x=1 HTTP/1.1\r\nHost: [::1]:81\r\n" + fields +
			"\r\n"},
		{
			with("limiterUrl", `"http://a/p?x=1"`, "requestOptions", `{"query":{"z":"ä b","k&":"="}}`),
			"GET /p?x=1&k%26=%3D&z=%C3%A4+b HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n",
		},
		{
			with("limiterUrl", `"http://a"`, "requestOptions",
				`{"headers":{"host":"b","accept":" x ","user-agent":"me"},"keepAlive":false}`),
			"GET / HTTP/1.1\r\naccept: x\r\nhost: b\r\nuser-agent: me\r\nConnection: close\r\n\r\n",
		},
		{
			with("limiterUrl", `"http://a"`, "requestOptions", `{"method":"POST","body":"{\"a\":1}"}`),
			"POST / HTTP/1.1\r\nHost: a\r\n" + fields + "Content-Length: 7\r\n\r\n{\"a\":1}",
		},
		{
			with("limiterUrl", `"http://a"`, "requestOptions", `{"method":"PUT"}`),
			"PUT / HTTP/1.1\r\nHost: a\r\n" + fields + "Content-Length: 0\r\n\r\n",
		},
		{
			with("limiterUrl", `"http://a/s/M"`, "protocol", `"h2c"`, "requestOptions", `{"grpc":true,"body":"\n\u0001{{counter}}"}`),
			"POST /s/M HTTP/1.1\r\nHost: a\r\nUser-Agent: weir-loadgen\r\nContent-Type: application/grpc\r\n" +
				"TE: trailers\r\n\r\n\x00\x00\x00\x00\x03\n\x011",
		},
		{
			with("limiterUrl", `"http://a/s/M"`, "protocol", `"h2c"`, "requestOptions", `{"grpc":true,"bodyBase64":"CICAew=="}`),
			"POST /s/M HTTP/1.1\r\nHost: a\r\nUser-Agent: weir-loadgen\r\nContent-Type: application/grpc\r\n" +
				"TE: trailers\r\n\r\n\x00\x00\x00\x00\x04\x08\x80\x80{",
		},
		{
			with("limiterUrl", `"http://a"`, "requestOptions", `{"method":"DELETE","bodyBase64":"e3tjb3VudGVyfX0="}`),
			"DELETE / HTTP/1.1\r\nHost: a\r\n" + fields + "Content-Length: 11\r\n\r\n{{counter}}",
		},
	} {
		if got := string(parse(t, c.config).Request.Render(new([]byte), 0)); got != c.want {
			t.Errorf("%s:\n got %q\nwant %q", c.config, got, c.want)
		}
	}
}

func TestNamedConfiguration(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		testkit.WriteFile(t, filepath.Join(dir, name), text)
	}
	write("steady.json", with("duration", "3"))
	write("loop.json", `{"config":"steady"}`)
	p, err := Parse(now, []byte(`{"config":"steady"}`), dir)
	if err != nil || p.Config.Duration != 3 {
		t.Errorf("steady: %+v, %v", p, err)
	}
	if _, err := Parse(now, []byte(`{"seed":null,"config":"steady","shard":null}`), dir); err != nil {
		t.Errorf("fields that are null count as absent, but: %v", err)
	}
	for _, c := range []struct{ name, sentence string }{
		{"loop", "must not be used in"},
		{"absent", "no such file"},
		{"../steady", "must be the name of a file"},
		{".hidden", "must be the name of a file"},
		{"", "must be the name of a file"},
	} {
		_, err := Parse(now, fmt.Appendf(nil, `{"config":%q}`, c.name), dir)
		if err == nil || !strings.Contains(err.Error(), c.sentence) {
			t.Errorf("%q: %v, want %q", c.name, err, c.sentence)
		}
	}
}

func TestReadFileBounds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "big.json")
	for _, c := range []struct {
		size int
		good bool
	}{{configBytesMax, true}, {configBytesMax + 1, false}} {
		if err := os.WriteFile(path, make([]byte, c.size), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadConfig(path); (err == nil) != c.good {
			t.Errorf("%d bytes: %v, want good=%v", c.size, err, c.good)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(with("thresholds", `{"lag.p99":"<1"}`, "shard", `{"index":0,"of":1}`)), uint64(0))
	f.Add([]byte(options(`"headers":{"A":"b"},"query":{"q":"1"},"body":"x"`)), uint64(7))
	f.Add([]byte(options(`"method":"POST","headers":{"A":"{{random -5 5}}"},"query":{"q":"{{pick \"ä \" \"&\"}}"},"body":"{{counter}}x"`)), uint64(99))
	f.Add([]byte(with("limiterUrl", `"http://a/{{pick \"b/c\" \"?\"}}?x={{random 1 2}}"`, "profile",
		`{"type":"burst","params":{"baseRps":1,"spikeRps":2,"spikeDuration":1,"spikePeriod":2},"arrivals":"poisson"}`)),
		uint64(3))
	f.Add([]byte(with("profile", `{"type":"steps","params":{"steps":[{"rps":1,"duration":2}]}}`)), uint64(1))
	f.Add([]byte(with("profile",
		`{"type":"ddos","params":{"minRps":1,"maxRps":2,"maxSpikeDuration":1,"minIdleTime":1,"maxIdleTime":2}}`)), uint64(1))
	f.Fuzz(func(t *testing.T, data []byte, index uint64) {
		p, err := Parse(now, data, "")
		if err != nil {
			return
		}
		// What is accepted is one well-formed request, as long as it says.
		request := p.Request.Render(new([]byte), index)
		r := http1.NewRequestReader(&http1.Limits{HeadBytes: 1 << 24, Fields: 1 << 15})
		var h http1.Head
		ev, err := r.Next(request, &h)
		if err != nil || ev.Kind != http1.HeadDone {
			t.Fatalf("%s\nmakes the request %q: %v %v", data, request, ev.Kind, err)
		}
		body := request[ev.N:]
		if max(h.Length, 0) != int64(len(body)) {
			t.Fatalf("%s\nmakes a body of %d bytes, announced as %d", data, len(body), h.Length)
		}
		if text := p.Config.RequestOptions.Body; !strings.Contains(text, "{{") && string(body) != text {
			t.Fatalf("%s\nsends the body %q", data, body)
		}
	})
}

func parse(t *testing.T, config string) *Plan {
	t.Helper()
	p, err := Parse(now, []byte(config), "")
	if err != nil {
		t.Fatalf("%s: %v", config, err)
	}
	return p
}

// Faults that are too many to list are counted.
func TestManyFaults(t *testing.T) {
	steps := strings.Repeat(`{"rps":-1,"duration":1},`, 1000)
	text := `{"limiterUrl":"http://x/","duration":60,"profile":{"type":"steps","params":{"steps":[` +
		strings.TrimSuffix(steps, ",") + `]}}}`
	_, err := Parse(now, []byte(text), "")
	if err == nil || !strings.HasSuffix(err.Error(), "and 900 more") {
		t.Errorf("have %v", err)
	}
}

// Names lists what config may name, up to a bound.
func TestNames(t *testing.T) {
	dir := t.TempDir()
	write := func(name string) {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"b.json", "a.b.json", "trace.csv", ".hidden.json", "two words.json"} {
		write(name)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	if names, more, err := Names(dir); err != nil || more != 0 || !slices.Equal(names, []string{"a.b", "b"}) {
		t.Errorf("%q, %d more, %v", names, more, err)
	}
	for i := range plansMax - 2 {
		write(fmt.Sprintf("c%03d.json", i))
	}
	if names, more, err := Names(dir); err != nil || more != 0 || len(names) != plansMax {
		t.Errorf("at the bound %d names, %d more, %v", len(names), more, err)
	}
	write("z.json")
	if names, more, err := Names(dir); err != nil || more != 1 || len(names) != plansMax || slices.Contains(names, "z") {
		t.Errorf("beyond the bound %d names, %d more, %v", len(names), more, err)
	}
	if names, _, err := Names(""); err != nil || names != nil {
		t.Errorf("without a folder %q, %v", names, err)
	}
	if _, _, err := Names(filepath.Join(dir, "absent")); err == nil {
		t.Error("a folder that is absent is no error")
	}
}
