package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"weir/internal/test/testkit"
)

// shaped is a configuration with a profile of the given type.
func shaped(kind, params string) string {
	return with("profile", fmt.Sprintf(`{"type":%q,"params":%s}`, kind, params))
}

// Every profile of the contract is accepted, sends what its formula says, and
// is shown in the log and given back as it was.
func TestProfiles(t *testing.T) {
	for _, c := range []struct {
		config, text string
		expected     float64
		echo         string
	}{
		{shaped("constant", `{"rps":100}`), "constant (rps=100)", 6000,
			`{"type":"constant","params":{"rps":100},"arrivals":"uniform"}`},
		{shaped("poisson", `{"averageRps":100}`), "poisson (averageRps=100)", 6000,
			`{"type":"poisson","params":{"averageRps":100},"arrivals":"poisson"}`},
		{
			shaped("burst", `{"baseRps":100,"spikeRps":500,"spikeDuration":5,"spikePeriod":60}`),
			"burst (baseRps=100, spikeRps=500)", 8000,
			`{"type":"burst","params":{"baseRps":100,"spikeDuration":5,"spikePeriod":60,"spikeRps":500},"arrivals":"uniform"}`,
		},
		{
			shaped("sinusoidal", `{"minRps":10,"maxRps":30,"period":20}`), "sinusoidal (minRps=10, maxRps=30)", 1200,
			`{"type":"sinusoidal","params":{"maxRps":30,"minRps":10,"period":20},"arrivals":"uniform"}`,
		},
		{
			shaped("ddos", `{"minRps":5,"maxRps":5,"maxSpikeDuration":5,"minIdleTime":1,"maxIdleTime":9}`),
			"ddos (minRps=5, maxRps=5)", 300,
			`{"type":"ddos","params":{"maxIdleTime":9,"maxRps":5,"maxSpikeDuration":5,"minIdleTime":1,"minRps":5},"arrivals":"uniform"}`,
		},
		{shaped("ramp", `{"startRps":0,"endRps":10}`), "ramp (startRps=0, endRps=10)", 300,
			`{"type":"ramp","params":{"endRps":10,"startRps":0},"arrivals":"uniform"}`},
		{
			shaped("steps", `{"steps":[{"rps":1,"duration":30},{"rps":3,"duration":30}]}`), "steps (steps=2, rps=1 to 3)", 120,
			`{"type":"steps","params":{"steps":[{"duration":30,"rps":1},{"duration":30,"rps":3}]},"arrivals":"uniform"}`,
		},
		{
			with("profile", `{"type":"ramp","params":{"startRps":0,"endRps":10},"arrivals":"poisson"}`),
			"ramp (startRps=0, endRps=10, arrivals=poisson)", 300,
			`{"type":"ramp","params":{"endRps":10,"startRps":0},"arrivals":"poisson"}`,
		},
	} {
		p := parse(t, c.config)
		if p.ProfileText != c.text || p.Schedule.Expected() != c.expected || len(p.Warnings) != 0 {
			t.Errorf("%s:\n got %s, %v requests, warnings %q\nwant %s, %v requests", c.config, p.ProfileText,
				p.Schedule.Expected(), p.Warnings, c.text, c.expected)
		}
		echo, err := json.Marshal(p.Config.Profile)
		if err != nil || string(echo) != c.echo {
			t.Errorf("%s is given back as %s (%v), want %s", c.config, echo, err, c.echo)
		}
		// What is given back is the same test.
		whole := testkit.Must(json.Marshal(p.Config))(t)
		if again := parse(t, string(whole)); again.ScheduleHash != p.ScheduleHash || again.ProfileText != p.ProfileText {
			t.Errorf("%s given back is %s: another schedule", c.config, whole)
		}
	}
}

func TestProfileRefused(t *testing.T) {
	for _, c := range []refused{
		{with("profile", `{"type":"burst"}`), "profile.params",
			"is missing; burst has baseRps, spikeRps, spikeDuration, spikePeriod"},
		{shaped("burst", `[]`), "profile.params", "must be an object"},
		{shaped("burst", `{"baseRps":"1"}`), "profile.params.baseRps", "must be a number"},
		{shaped("burst", `{"rps":1}`), "profile.params.rps", "unknown parameter; burst has baseRps"},
		{shaped("burst", `{"baseRps":1,"spikeDuration":1,"spikePeriod":2}`), "profile.params.spikeRps", "is missing"},
		{shaped("burst", `{"baseRps":1,"spikeRps":1,"spikeDuration":2,"spikePeriod":2}`), "profile.params.spikeDuration",
			"must be less than spikePeriod"},
		{shaped("sinusoidal", `{"minRps":3,"maxRps":1,"period":1}`), "profile.params.minRps", "must not be above maxRps"},
		{shaped("sinusoidal", `{"minRps":3,"maxRps":4,"period":1,"phase":0}`), "profile.params.phase",
			"unknown parameter; sinusoidal has minRps, maxRps, period"},
		{shaped("poisson", `{"averageRps":0}`), "profile.params.averageRps", "must be a number from"},
		{shaped("poisson", `{"rps":5}`), "profile.params.rps", "unknown parameter; poisson has averageRps"},
		{with("profile", `{"type":"poisson","params":{"averageRps":5},"arrivals":"uniform"}`), "profile.arrivals",
			"must be poisson with type poisson"},
		{shaped("ddos", `{"minRps":1,"maxRps":2,"maxSpikeDuration":1,"minIdleTime":3,"maxIdleTime":2}`),
			"profile.params.minIdleTime", "must not be above maxIdleTime"},
		{shaped("ramp", `{"startRps":-1,"endRps":2}`), "profile.params.startRps", "must be 0 or a number"},
		{with("profile", `{"type":"steps"}`), "profile.params", "is missing; steps has steps"},
		{shaped("steps", `{}`), "profile.params.steps", "is missing"},
		{shaped("steps", `{"steps":[]}`), "profile.params.steps", "must be from 1 to"},
		{shaped("steps", `{"steps":[{"rps":1,"duration":1},{"rps":1}]}`), "profile.params.steps[1].duration", "is missing"},
		{shaped("steps", `{"steps":[{"rps":1,"duration":1},{"rps":-1,"duration":1}]}`), "profile.params.steps[1].rps",
			"must be 0 or"},
		{shaped("steps", `{"steps":[{"rps":1,"duration":1,"ramp":1}]}`), "profile.params.steps[0].ramp", "unknown"},
		{with("profile", `{"type":"trace"}`), "profile.params", "is missing; trace has file, speedup, scaleRps"},
		{shaped("trace", `{}`), "profile.params.file", "is missing"},
		{shaped("trace", `{"file":"/no/such/file"}`), "profile.params.file", "no such file"},
		{shaped("trace", `{"file":"/dev/zero"}`), "profile.params.file", "is not a plain file"},
		{shaped("trace", `{"file":"x","speed":1}`), "profile.params.speed", "unknown"},
	} {
		refuses(t, c)
	}
	// All wrong parameters are told.
	_, err := Parse(now, []byte(shaped("burst", `{"baseRps":-1,"spikeRps":-1,"spikeDuration":-1,"spikePeriod":-1}`)), "")
	for _, name := range []string{"baseRps", "spikeRps", "spikeDuration", "spikePeriod"} {
		if !strings.Contains(fmt.Sprint(err), "profile.params."+name+": ") {
			t.Errorf("%v does not tell of %s", err, name)
		}
	}
}

// A test longer than its steps or its trace is run, and said to be.
func TestShapeWarnings(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "short.csv", []byte("1\n2\n"))
	for _, c := range []struct{ config, want string }{
		{shaped("steps", `{"steps":[{"rps":1,"duration":59}]}`),
			"the steps last 59 s, the test 60 s: the last step continues until the end"},
		{shaped("trace", `{"file":"short.csv"}`), "the trace lasts 2 s, the test 60 s: nothing is sent after its end"},
	} {
		p, err := Parse(now, []byte(c.config), dir)
		if err != nil || len(p.Warnings) != 1 || p.Warnings[0] != c.want {
			t.Errorf("%s: warnings %q, error %v, want %q", c.config, p.Warnings, err, c.want)
		}
	}
}

// A trace may be compressed, whatever its name; it is found from CONFIG_DIR on.
func TestTraceFiles(t *testing.T) {
	dir := t.TempDir()
	text := []byte("t,count\n0,60\n30,120\n")
	var zipped, zstandard bytes.Buffer
	gz := gzip.NewWriter(&zipped)
	if _, err := gz.Write(text); err != nil || gz.Close() != nil {
		t.Fatal("cannot compress")
	}
	zs := testkit.Must(zstd.NewWriter(&zstandard))(t)
	if _, err := zs.Write(text); err != nil || zs.Close() != nil {
		t.Fatal("cannot compress")
	}
	write(t, dir, "a.csv", text)
	write(t, dir, "sub/a.csv.gz", zipped.Bytes())
	write(t, dir, "a.csv.zst", zstandard.Bytes())
	write(t, dir, "named-otherwise", zstandard.Bytes())
	hashes := map[string]bool{}
	for _, name := range []string{"a.csv", "sub/a.csv.gz", "a.csv.zst", "named-otherwise", filepath.Join(dir, "a.csv")} {
		config := shaped("trace", fmt.Sprintf(`{"file":%q,"speedup":2,"scaleRps":0.5}`, name))
		p, err := Parse(now, []byte(config), dir)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if p.Schedule.Expected() != 90 || p.ProfileText != "trace (file="+name+")" {
			t.Errorf("%s: %v requests of %s, want 90", name, p.Schedule.Expected(), p.ProfileText)
		}
		hashes[p.ScheduleHash] = true
	}
	if len(hashes) != 1 {
		t.Errorf("the same trace in different files has the hashes %v", hashes)
	}

	write(t, dir, "broken.csv", []byte("t,count\n0,60\n30,many\n"))
	write(t, dir, "broken.gz", zipped.Bytes()[:zipped.Len()-12])
	write(t, dir, "broken.zst", append([]byte{0x28, 0xb5, 0x2f, 0xfd}, "garbage"...))
	for _, c := range []struct{ name, want string }{
		{"broken.csv", "profile.params.file: read trace broken.csv: line 3: the rate or count must be"},
		{"broken.gz", "profile.params.file: read trace broken.gz: "},
		{"broken.zst", "profile.params.file: read trace broken.zst: "},
		{"../a.csv", "within CONFIG_DIR"},
		{"sub", "is not a plain file"},
		{"absent", "no such file"},
	} {
		_, err := Parse(now, []byte(shaped("trace", fmt.Sprintf(`{"file":%q}`, c.name))), dir)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	for name, want := range map[string]string{
		`{"file":"a.csv","speedup":0}`:    "profile.params.speedup: must be a number from 1e-06",
		`{"file":"a.csv","scaleRps":1e9}`: "profile.params.scaleRps: must be a number from 1e-06",
		`{"file":"a.csv","scaleRps":1e6}`: "",
		`{"file":"a.csv","speedup":1e6}`:  "",
	} {
		_, err := Parse(now, []byte(shaped("trace", name)), dir)
		if want == "" && err != nil || want != "" && !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

func write(t *testing.T, dir, name string, data []byte) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A trace may be as large as is allowed, and not larger.
func TestBounded(t *testing.T) {
	for _, c := range []struct {
		size int64
		good bool
	}{{10, true}, {11, false}} {
		_, err := bounded(strings.NewReader(strings.Repeat("1\n", int(c.size))[:c.size]), 10)
		if (err == nil) != c.good || !c.good && err.Error() != "it is larger than 10 bytes" {
			t.Errorf("%d bytes of 10: %v, want good=%v", c.size, err, c.good)
		}
	}
}

// The hash is the same for all shards of a schedule, and no other schedule has
// it.
func TestScheduleHash(t *testing.T) {
	hash := func(fields ...string) string { return parse(t, with(fields...)).ScheduleHash }
	plain := hash()
	if len(plain) != 16 {
		t.Errorf("the hash is %q, want 16 digits", plain)
	}
	if got := hash("concurrency", "7", "requestOptions", `{"body":"x"}`, "limiterUrl", `"http://other/"`); got != plain {
		t.Errorf("what is no part of the schedule changes its hash from %s to %s", plain, got)
	}
	one, two := hash("shard", `{"index":0,"of":2}`), hash("shard", `{"index":1,"of":2}`)
	if one != two {
		t.Errorf("two shards of a schedule have the hashes %s and %s", one, two)
	}
	seen := map[string]string{plain: "plain", one: "two shards"}
	for name, got := range map[string]string{
		"seed":     hash("seed", "5"),
		"duration": hash("duration", "61"),
		"startAt":  hash("startAt", `"2026-01-19T17:00:00Z"`),
		"later":    hash("startAt", `"2026-01-19T17:00:01Z"`),
		"arrivals": hash("profile", `{"type":"constant","params":{"rps":100},"arrivals":"poisson"}`),
		"rate":     hash("profile", `{"type":"constant","params":{"rps":100.5}}`),
		"three":    hash("shard", `{"index":1,"of":3}`),
	} {
		if other, ok := seen[got]; ok {
			t.Errorf("%s has the same hash as %s", name, other)
		}
		seen[got] = name
	}
	// The same moment, written in another zone.
	if a, b := hash("startAt", `"2026-01-19T17:00:00Z"`), hash("startAt", `"2026-01-19T18:00:00+01:00"`); a != b {
		t.Errorf("the same start in two zones gives %s and %s", a, b)
	}
}

// A far start is accepted up to a year ahead.
func TestFarStart(t *testing.T) {
	at := now.Add(startAtMax)
	if p := parse(t, with("startAt", `"`+at.Format(time.RFC3339)+`"`)); !p.StartAt.Equal(at) {
		t.Errorf("starts at %v, want %v", p.StartAt, at)
	}
}
