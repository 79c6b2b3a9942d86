package serve

import (
	"strings"
	"testing"
	"time"

	"weir/target/model"
)

const defaultModel = `{"delay":0,"delayDist":"constant","workers":0,"queue":1000,"queueTimeout":5,"errorRate":0}` + "\n"

func TestModelEndpoint(t *testing.T) {
	r := start(t, model.Default())
	r.want("GET", "/model", "", 200, defaultModel)
	r.want("POST", "/model", `{}`, 200, defaultModel)
	if log := r.log.String(); log != "" {
		t.Errorf("no change is logged as %q", log)
	}
	r.want("POST", "/model", `{"delay":0.01,"workers":4}`, 200,
		`{"delay":0.01,"delayDist":"constant","workers":4,"queue":1000,"queueTimeout":5,"errorRate":0}`+"\n")
	const all = `{"delay":0.0025,"delayDist":"lognormal","workers":3,"queue":7,"queueTimeout":0.5,"errorRate":0.25}`
	r.want("POST", "/model", all, 200, all+"\n")
	r.want("GET", "/model", "", 200, all+"\n")
	const want = `level=INFO msg="Changed the model"`
	if log := r.log.String(); strings.Count(log, want) != 2 ||
		!strings.Contains(log, "delay=2.5ms delayDist=lognormal workers=3 queue=7 queueTimeout=500ms errorRate=0.25") {
		t.Errorf("two changes are logged as\n%s", log)
	}
}

func TestModelRefusesNonsense(t *testing.T) {
	r := start(t, model.Default())
	for _, test := range []struct{ body, want string }{
		{`{"delay":-1}`, `{"error":"must be 0 to 3600 seconds","path":"delay"}`},
		{`{"delay":1e300}`, `{"error":"must be 0 to 3600 seconds","path":"delay"}`},
		{`{"delay":-1e300}`, `{"error":"must be 0 to 3600 seconds","path":"delay"}`},
		{`{"delayDist":"uniform"}`,
			`{"error":"must be one of constant, exponential, lognormal, is \"uniform\"","path":"delayDist"}`},
		{`{"workers":-1}`, `{"error":"must be 0 to 1000000","path":"workers"}`},
		{`{"queue":1000001}`, `{"error":"must be 0 to 1000000","path":"queue"}`},
		{`{"queueTimeout":0}`, `{"error":"must be 0.001 to 3600 seconds","path":"queueTimeout"}`},
		{`{"errorRate":1.5}`, `{"error":"must be 0 to 1","path":"errorRate"}`},
		{`{"workers":-1,"errorRate":2}`,
			`{"error":"workers: must be 0 to 1000000; errorRate: must be 0 to 1","path":"workers"}`},
		{`{"workers":9,"errorRate":2}`, `"path":"errorRate"`},
		{`{"workers":1.5}`, `"path":"workers"`},
		{`{"Workers":1}`, `"path":"Workers"`},
		{`{"speed":1}`, `"path":"speed"`},
		{`{"delay":1,"delay":2}`, `"path":"delay"`},
		{`{"delay":"1s"}`, `"path":"delay"`},
		{`[]`, `"error":`},
		{``, `"error":`},
	} {
		status, fields, body := r.do("POST", "/model", test.body)
		if status != 400 || !strings.Contains(body, test.want) || fields.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %s, want 400 with %s", test.body, status, body, test.want)
		}
	}
	r.want("GET", "/model", "", 200, defaultModel)
}

// A change of the model frees waiting requests on all loops.
func TestModelChangeAnswersTheQueue(t *testing.T) {
	r := start(t, model.Config{Delay: forever, Workers: 1, Queue: 9, QueueTimeout: forever})
	_, waiting := r.occupy(6)
	status, _, _ := r.do("POST", "/model", `{"delay":0,"workers":0}`)
	if status != 200 {
		t.Fatalf("the change is answered %d", status)
	}
	for _, w := range waiting {
		w.Status(200)
	}
	r.inside(1, 0) // who has a worker keeps it
	r.want("GET", "/api/test", "", 200, "OK")
}

func TestModelChangeGivesUpTheQueue(t *testing.T) {
	r := start(t, model.Config{Delay: forever, Workers: 1, Queue: 9, QueueTimeout: forever})
	_, waiting := r.occupy(1)
	r.do("POST", "/model", `{"queueTimeout":0.001}`)
	waiting[0].Status(503)
}

// A service that breaks down and recovers, without a restart.
func TestDegradation(t *testing.T) {
	r := start(t, model.Default())
	r.want("GET", "/api/test", "", 200, "OK")
	r.do("POST", "/model", `{"errorRate":1}`)
	r.want("GET", "/api/test", "", 500, "Internal Server Error")
	r.do("POST", "/model", `{"errorRate":0,"workers":1,"delay":0.001}`)
	r.want("GET", "/api/test", "", 200, "OK")
	r.do("POST", "/model", `{"workers":0,"delay":0}`)
	r.want("GET", "/api/test", "", 200, "OK")
}

func TestStartRefusesAWrongModel(t *testing.T) {
	env := start(t, model.Default()).env
	_, err := Start(env, Config{Model: model.Config{Workers: -1, QueueTimeout: time.Second}})
	if err == nil || err.Error() != "set up the model: workers: must be 0 to 1000000" {
		t.Errorf("start said %v", err)
	}
}
