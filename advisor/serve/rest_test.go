package serve

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/advisor/policy"
	"weir/internal/test/testkit"
)

// contract is the documented request.
const contract = `{"timestamp":"2026-01-19T16:30:00Z","interval":30,"observedRps":120.5,"forwardedRps":98.2,"rejectedRate":0.185,"latencyP95":0.012,"errors5xx":0.0,
 "algorithm":"fixed","limit":100,"window":1}`

func TestContract(t *testing.T) {
	r := start(t, defaults())
	a := r.want(200, "POST", "/v1/limit-config", contract)
	for _, name := range []string{"algorithm", "limit", "window", "predictedRps", "validFor", "reason", "codes",
		"confidence", "forecast"} {
		if _, ok := a[name]; !ok {
			t.Errorf("the answer lacks %s: %v", name, a)
		}
	}
	later := strings.Replace(contract, "16:30:00Z", "17:30:30+01:00", 1)
	later = strings.Replace(later, `"interval"`, `"more":{"x":[1]},"interval"`, 1) // unknown names are ignored
	r.want(200, "POST", "/v1/limit-config", later)
	if f := r.want(200, "GET", "/v1/forecast?horizon=600", ""); f["at"] != "2026-01-19T16:30:30Z" ||
		f["step"] != 60.0 || len(f["points"].([]any)) != 10 {
		t.Errorf("the forecast is %v", f)
	}
	point := r.want(200, "GET", "/v1/forecast?horizon=3600", "")["points"].([]any)[59].(map[string]any)
	if point["t"] != 3600.0 || !(point["q05"].(float64) <= point["q50"].(float64) &&
		point["q50"].(float64) <= point["q99"].(float64)) {
		t.Errorf("the last point is %v", point)
	}
	h := r.want(200, "GET", "/v1/history?span=3600&resolution=raw", "")
	if rows := h["rows"].([]any); len(rows) != 2 || rows[1].(map[string]any)["rps"] != 120.5 {
		t.Errorf("the history is %v", h)
	}
	s := r.want(200, "GET", "/v1/state", "")
	if s["newest"] != "2026-01-19T16:30:30Z" || s["rounds"] != 2.0 || len(s["instances"].([]any)) != 1 {
		t.Errorf("the state is %v", s)
	}
}

// Delivered requests were refused and stored before. They count as forwarded, and do not make a
// snapshot invalid, however few requests arrive.
func TestDelivered(t *testing.T) {
	cfg := defaults()
	cfg.StateFile = filepath.Join(t.TempDir(), "state")
	r := start(t, cfg)
	quiet := strings.NewReplacer("120.5", "1", "98.2", "1", "0.185", "0")
	r.want(400, "POST", "/v1/limit-config", strings.Replace(contract, "120.5", "1", 1))
	r.want(200, "POST", "/v1/limit-config", strings.Replace(quiet.Replace(contract), `"rejectedRate"`,
		`"deliveredRps":97.5,"rejectedRate"`, 1))
	for range 2 { // the second time restored from the journal
		seen := r.want(200, "GET", "/v1/state", "")["instances"].([]any)[0].(map[string]any)
		if seen["observedRps"] != 1.0 || seen["forwardedRps"] != 98.5 {
			t.Errorf("the proxy is known for %v", seen)
		}
		r.stop()
		r = start(t, cfg)
	}
}

func TestWrongSnapshots(t *testing.T) {
	r := start(t, defaults())
	r.want(200, "POST", "/v1/limit-config", contract)
	before := testkit.JSON(r.want(200, "GET", "/v1/state", ""))
	for _, c := range []struct{ old, with, path, message string }{
		{`"interval":30,`, ``, "interval", "is missing"},
		{`"timestamp":"2026-01-19T16:30:00Z",`, ``, "timestamp", "is missing"},
		{`"algorithm":"fixed",`, ``, "algorithm", "is missing"},
		{`"fixed"`, `""`, "algorithm", "is missing"},
		{`,"window":1`, ``, "window", "is missing or 0; algorithm fixed needs it"},
		{`"fixed"`, `"token"`, "capacity",
			"capacity: is missing or 0; algorithm token needs it; fillRate: is missing or 0; algorithm token needs it"},
		{`"fixed"`, `7`, "algorithm", "must be a string, is 7"},
		{`30,`, `"30",`, "interval", `must be a number, is "30"`},
		{`30,`, `0.5,`, "interval", "must be from 1 to 86400, is 0.5"},
		{`30,`, `86401,`, "interval", "must be from 1 to 86400"},
		{`120.5`, `NaN`, "observedRps", ""},
		{`120.5`, `1e999`, "observedRps", "is out of range"},
		{`120.5`, `-1`, "observedRps", "must be from 0 to 1e+09, is -1"},
		{`120.5`, `1.1e9`, "observedRps", "must be from 0 to 1e+09"},
		{`98.2`, `-0.1`, "forwardedRps", "must be from 0"},
		{`98.2`, `251.1`, "forwardedRps", "must be at most 251 with an observedRps of 120.5, is 251.1"},
		{`"rejectedRate"`, `"deliveredRps":-1,"rejectedRate"`, "deliveredRps", "must be from 0 to 1e+09, is -1"},
		{`0.185`, `1.01`, "rejectedRate", "must be from 0 to 1, is 1.01"},
		{`0.0,`, `-0.5,`, "errors5xx", "must be from 0 to 1"},
		{`0.012`, `3601`, "latencyP95", "must be from 0 to 3600"},
		{`100`, `-100`, "limit", "must be from 0"},
		{`2026-01-19T16:30:00Z`, `yesterday`, "timestamp", "must be a time such as"},
		{`2026-01-19T16:30:00Z`, `9026-01-19T16:30:00Z`, "timestamp", "must be in the years 1970 to 2200"},
		{`2026-01-19T16:30:00Z`, `1969-12-31T16:30:00Z`, "timestamp", "must be in the years"},
		{`2026-01-19T16:30:00Z`, `2026-01-19T16:28:59Z`, "timestamp",
			"is more than a minute older than the newest snapshot: it is 2026-01-19T16:28:59Z, the newest 2026-01-19T16:30:00Z"},
		{`"interval"`, `"Interval":3,"interval"`, "Interval", ""},
		{`"interval"`, `"interval":30,"interval"`, "interval", ""},
		{`"algorithm"`, `"instance":"` + strings.Repeat("x", nameBytesMax+1) + `","algorithm"`, "instance",
			"is longer than 200 bytes"},
		{contract, ``, "", ""},
		{contract, `[]`, "", "must be an object"},
	} {
		a := r.want(400, "POST", "/v1/limit-config", strings.Replace(contract, c.old, c.with, 1))
		path, _ := a["path"].(string)
		text := a["error"].(string)
		// each of several faults is named
		repeats := strings.HasPrefix(text, path+": ") && !strings.HasPrefix(c.message, path+": ")
		if path != c.path || !strings.Contains(text, c.message) || repeats {
			t.Errorf("%s for %s: %v, want %s: %s", c.with, c.old, a, c.path, c.message)
		}
	}
	if after := testkit.JSON(r.want(200, "GET", "/v1/state", "")); after != before {
		t.Errorf("what was refused changed the state from\n%s to\n%s", before, after)
	}
	a := r.want(400, "POST", "/v1/limit-config", `{"algorithm":"fixed"}`)
	for _, name := range []string{"timestamp", "interval", "observedRps", "forwardedRps", "rejectedRate", "latencyP95",
		"errors5xx", "limit", "window"} {
		if !strings.Contains(a["error"].(string), name+": is missing") {
			t.Errorf("an empty snapshot is not told to lack %s: %v", name, a["error"])
		}
	}
	r.stop() // writes the last line
	if log := r.log.String(); !strings.Contains(log, "Snapshots refused") || !strings.Contains(log, "why=invalid") ||
		!strings.Contains(log, "why=old") {
		t.Errorf("the log is\n%s", log)
	}
}

func TestWrongRequests(t *testing.T) {
	r := start(t, defaults())
	r.want(405, "GET", "/v1/limit-config", "")
	r.want(404, "POST", "/v1/limits", "{}")
	r.want(413, "POST", "/v1/limit-config", `{"x":"`+strings.Repeat("x", bodyMax)+`"}`)
	for _, c := range []struct{ path, name string }{
		{"/v1/forecast?horizon=59", "horizon"}, {"/v1/forecast?horizon=3601", "horizon"},
		{"/v1/forecast?horizon=soon", "horizon"}, {"/v1/forecast?horizon=NaN", "horizon"},
		{"/v1/history?span=0", "span"}, {"/v1/history?span=1e12", "span"}, {"/v1/history?resolution=1", "resolution"},
		{"/v1/history?span=8640000&resolution=60", "resolution"},
	} {
		if a := r.want(400, "GET", c.path, ""); a["path"] != c.name {
			t.Errorf("%s: %v", c.path, a)
		}
	}
	if f := r.want(200, "GET", "/v1/forecast", ""); f["at"] != nil || len(f["points"].([]any)) != 0 {
		t.Errorf("the forecast of nothing is %v", f)
	}
	if h := r.want(200, "GET", "/v1/history", ""); len(h["rows"].([]any)) != 0 {
		t.Errorf("the history of nothing is %v", h)
	}
	r.want(200, "GET", "/actuator/health/readiness", "")
}

func TestContentType(t *testing.T) {
	r := start(t, defaults())
	for _, c := range []struct {
		kind   string
		status int
	}{
		{"application/json", 200}, {"application/json; charset=utf-8", 200}, {"application/problem+json", 200},
		{"application/x-www-form-urlencoded", 200},
		{"text/xml", 415}, {"multipart/form-data; boundary=x", 415}, {";", 415},
	} {
		res := testkit.Must(r.client.Post("http://"+r.Addr().String()+"/v1/limit-config", c.kind,
			strings.NewReader(contract)))(t)
		res.Body.Close()
		if res.StatusCode != c.status {
			t.Errorf("%s: %d, want %d", c.kind, res.StatusCode, c.status)
		}
	}
}

// The limit of an unknown algorithm stays, and its demand is learned.
func TestUnknownAlgorithm(t *testing.T) {
	r := start(t, defaults())
	body := strings.Replace(contract, `"fixed"`, `"quantum"`, 1)
	a := r.want(200, "POST", "/v1/limit-config", body)
	if a["algorithm"] != "quantum" || a["limit"] != 100.0 || a["window"] != 1.0 ||
		a["codes"].([]any)[0] != "unknown_algorithm" {
		t.Errorf("answered %v", a)
	}
	if n := len(a["forecast"].(map[string]any)["points"].([]any)); n != 10 {
		t.Errorf("the forecast has %d points", n)
	}
	if s := r.want(200, "GET", "/v1/state", ""); s["rounds"] != 1.0 {
		t.Errorf("the state is %v", s)
	}
	if a := r.want(200, "POST", "/v1/limit-config", strings.Replace(strings.Replace(contract, `"fixed"`, `"off"`, 1),
		"16:30", "16:31", 1)); a["algorithm"] != "off" {
		t.Errorf("a limiter that is off is answered %v", a)
	}
	r.stop()
}

// A forecast has the time at which it begins, also during a round.
func TestForecastOfARound(t *testing.T) {
	r := start(t, defaults())
	a, b := snapAt(monday.Add(30*time.Second)), snapAt(monday.Add(45*time.Second))
	a.Instance, b.Instance = "a", "b"
	r.post(a)
	answer := r.post(b)
	for _, f := range []any{answer["forecast"], r.want(200, "GET", "/v1/forecast", "")} {
		if at := f.(map[string]any)["at"]; at != "2026-01-19T00:00:30Z" {
			t.Errorf("the forecast is of %v", at)
		}
	}
}

// Snapshots up to a minute old are answered, and change nothing.
func TestLate(t *testing.T) {
	r := start(t, defaults())
	r.post(snapAt(monday.Add(30 * time.Second)))
	last := r.post(snapAt(monday.Add(60 * time.Second)))
	before := testkit.JSON(r.want(200, "GET", "/v1/state", ""))
	for _, back := range []time.Duration{0, 30 * time.Second, 59 * time.Second} {
		s := snapAt(monday.Add(60*time.Second - back))
		s.Observed = 5000
		if a := r.post(s); testkit.JSON(a["limit"]) != testkit.JSON(last["limit"]) {
			t.Errorf("%s late: %v, want %v", back, a, last)
		}
	}
	if after := testkit.JSON(r.want(200, "GET", "/v1/state", "")); after != before {
		t.Errorf("late snapshots changed the state from\n%s to\n%s", before, after)
	}
}

func TestHistoryEndpoint(t *testing.T) {
	r := start(t, defaults())
	feed(t, r.locked, monday, monday.Add(26*time.Hour), 5*time.Minute)
	h := r.want(200, "GET", "/v1/history?span=7200&resolution=300", "")
	rows := h["rows"].([]any)
	if len(rows) != 24 || h["to"] != "2026-01-20T02:00:00Z" || h["from"] != "2026-01-20T00:00:00Z" {
		t.Fatalf("%d rows from %v to %v", len(rows), h["from"], h["to"])
	}
	for _, row := range rows {
		row := row.(map[string]any)
		at := testkit.Must(time.Parse(time.RFC3339, row["at"].(string)))(t)
		testkit.Tolerance(0.02).Near(t, fmt.Sprintf("the rate at %s", at), row["rps"].(float64), day(at))
	}
	if h := r.want(200, "GET", "/v1/history", ""); h["resolution"] != 300.0 || len(h["rows"].([]any)) < 280 {
		t.Errorf("a day is %v rows of %v s", len(h["rows"].([]any)), h["resolution"])
	}
}

func TestMetrics(t *testing.T) {
	r := start(t, defaults())
	if _, text := r.do("GET", "/metrics", ""); strings.Contains(text, "\nadvisor_recommended_limit ") ||
		strings.Contains(text, "NaN") {
		t.Errorf("before any snapshot the metrics are\n%s", text)
	}
	feed(t, r.locked, monday, monday.Add(8*time.Hour), 2*time.Minute)
	r.post(snapAt(monday.Add(8*time.Hour + 30*time.Second)))
	_, text := r.do("GET", "/metrics", "")
	testkit.Contains(t, text,
		"\nadvisor_recommended_limit ", "\nadvisor_predicted_rps ", "\nadvisor_capacity_estimate ",
		`advisor_fit_duration_seconds_count `, `advisor_snapshots_total{result="learned"} 1`,
		`advisor_forecast_error_ratio{horizon_seconds="`, "\nadvisor_instances 1\n",
		`advisor_capacity_estimate_quantile{quantile="0.2"} `, "advisor_post_duration_seconds_count 1")
	if strings.Contains(text, "advisor_fit_duration_seconds_count 0") {
		t.Error("no snapshot was measured in eight hours")
	}
}

func FuzzSnapshot(f *testing.F) {
	f.Add([]byte(contract))
	f.Add([]byte(strings.Replace(contract, `"algorithm"`, gated+`"algorithm"`, 1)))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := readSnapshot(data)
		if err != nil {
			return
		}
		again, err := readSnapshot(record(&s))
		if err != nil || string(record(&again)) != string(record(&s)) {
			t.Errorf("%s became %s, %v", record(&s), record(&again), err)
		}
	})
}

// gated are the fields of newer proxies.
const gated = `"mode":"failopen","store":"local","ended":2900,"inFlight":7.5,"gateLimit":16,"gateShare":0.25,"healthyTargets":3,`

// Fields that older proxies do not send are accepted and not required.
func TestGated(t *testing.T) {
	s, err := readSnapshot([]byte(strings.Replace(contract, `"algorithm"`, gated+`"algorithm"`, 1)))
	if err != nil || s.Mode != policy.FailOpen || !s.OwnStore || s.Ended != 2900 || s.GateLimit != 16 ||
		s.GateShare != .25 || s.InFlight != 7.5 {
		t.Errorf("read as %+v, %v", s, err)
	}
	s, err = readSnapshot([]byte(contract))
	if err != nil || s.Mode != policy.Normal || s.OwnStore || s.Ended != 98.2*30 || s.GateLimit != 0 {
		t.Errorf("without it read as %+v, %v", s, err)
	}
	for _, c := range []struct{ with, want string }{
		{`"mode":"open",`, `mode: must be one of normal, shadow, failopen, is "open"`},
		{`"store":"redis",`, `store: must be one of shared, local, is "redis"`},
		{`"gateShare":1.5,`, "gateShare: must be from 0 to 1, is 1.5"}, {`"ended":-1,`, "ended: must be from 0"},
		{`"healthyTargets":1e7,`, "healthyTargets: must be from 0 to 1e+06"},
	} {
		if _, err := readSnapshot([]byte(strings.Replace(contract, `"algorithm"`, c.with+`"algorithm"`,
			1))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.with, err, c.want)
		}
	}
}

// The bound of gates is in every answer once it is known, also after the limit was changed.
func TestBoundInAnswers(t *testing.T) {
	r := start(t, defaults())
	for i := range 6 {
		s := snapAt(monday.Add(time.Duration(i+1) * 30 * time.Second))
		s.GateLimit, s.InFlight, s.Ended = 16, s.Forwarded/10, s.Forwarded*30 // 100 ms each
		if i == 5 {
			s.Limit.FillRate /= 2
			s.Instance = "new"
		}
		most := 3 * s.Forwarded / 10
		bound, _ := r.post(s)["gate"].(map[string]any)
		if got, known := bound["max"].(float64); known != (i >= 3) || known && (got < most || got > 2*most+20) {
			t.Errorf("snapshot %d is answered with %v, want about %.0f", i, bound, most)
		}
	}
}

// Proxies with stores of their own are reported as such.
func TestStores(t *testing.T) {
	r := start(t, defaults())
	var last map[string]any
	for i := range 8 {
		s := snapAt(monday.Add(time.Duration(i/2+1)*30*time.Second + time.Duration(i%2)))
		s.Instance, s.OwnStore = []string{"a", "b"}[i%2], true
		last = r.post(s)
	}
	if reason := last["reason"].(string); !strings.Contains(reason, "unshared") ||
		!strings.Contains(reason, "2 proxies without a shared store get a part each") {
		t.Errorf("the reason is %s", reason)
	}
	if n := r.want(200, "GET", "/v1/state", "")["unshared"]; n != 2.0 {
		t.Errorf("%v are told", n)
	}
	if text := r.log.String(); strings.Count(text, "divided between them") != 1 || !strings.Contains(text, "proxies=2") {
		t.Errorf("the log is\n%s", text)
	}
}

// Snapshots of another time are refused at first, and when it is accepted the old state is kept
// under another name.
func TestJump(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	cfg := kept(path)
	r := start(t, cfg)
	feed(t, r.locked, monday, monday.Add(10*time.Minute), 30*time.Second)
	for i := range 2 {
		a := r.want(400, "POST", "/v1/limit-config",
			string(record(snapAt(monday.Add(time.Duration(i)*30*time.Second-50*time.Hour)))))
		if a["path"] != "timestamp" || !strings.Contains(a["error"].(string), "older than the newest snapshot") {
			t.Errorf("answered %v", a)
		}
	}
	r.post(snapAt(monday.Add(time.Minute - 50*time.Hour)))
	r.stop()
	if names, err := filepath.Glob(path + ".before-*"); err != nil || len(names) != 1 ||
		!strings.Contains(r.log.String(), "keeping the previous state as "+names[0]) {
		t.Errorf("kept aside: %v, %v\n%s", names, err, r.log)
	}
	again := start(t, cfg)
	if v := again.locked.view(); v.Rounds != 1 {
		t.Errorf("after a restart %d rounds are known", v.Rounds)
	}
}
