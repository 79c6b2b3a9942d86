package serve

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/advisor/core"
	"weir/advisor/state"
	"weir/internal/test/testkit"
)

// Many proxies that report at the same time, while the state is read and saved, are added up
// correctly.
func TestCrowd(t *testing.T) {
	const proxies, rounds = 200, 4
	r := start(t, kept(filepath.Join(t.TempDir(), "s")))
	var readers sync.WaitGroup
	for _, path := range []string{"/v1/state", "/v1/forecast?horizon=3600", "/v1/history", "/metrics", "/"} {
		readers.Go(func() {
			for range 5 {
				if status, text := r.do("GET", path, ""); status != 200 {
					t.Errorf("%s: %d %s", path, status, text)
				}
			}
		})
	}
	readers.Go(func() {
		for range 5 {
			if err := r.saver.store.Save(r.checkpointNow(t)); err != nil {
				t.Error(err)
			}
		}
	})
	for i := range rounds {
		var crowd sync.WaitGroup
		for p := range proxies {
			crowd.Go(func() {
				s := snapAt(monday.Add(time.Duration(i+1) * 30 * time.Second).Add(time.Duration(p) * time.Millisecond))
				s.Instance, s.Observed, s.Forwarded = fmt.Sprint(p), 2, 2
				r.post(s)
			})
		}
		crowd.Wait()
	}
	readers.Wait()
	state := r.want(200, "GET", "/v1/state", "")
	if n := len(state["instances"].([]any)); n != proxies {
		t.Errorf("%d proxies are known, want %d", n, proxies)
	}
	rows := r.want(200, "GET", "/v1/history?span=3600&resolution=raw", "")["rows"].([]any)
	if last := rows[len(rows)-1].(map[string]any)["rps"]; last != 2.0*proxies {
		t.Errorf("the last sum is %v, want %d", last, 2*proxies)
	}
	if n := r.results[core.Learned].Load() + r.results[core.Late].Load(); n != proxies*rounds {
		t.Errorf("%d snapshots were answered, want %d", n, proxies*rounds)
	}
}

// checkpointNow returns a checkpoint of the state.
func (r *rig) checkpointNow(t *testing.T) (checkpoint state.Checkpoint) {
	r.locked.mu.Lock()
	defer r.locked.mu.Unlock()
	checkpoint, err := r.locked.checkpoint()
	if err != nil {
		t.Error(err)
	}
	return checkpoint
}

// Snapshots beyond the number of places are refused at once.
func TestShed(t *testing.T) {
	r := start(t, defaults())
	for range postsMax {
		r.places <- struct{}{}
	}
	if a := r.want(503, "POST", "/v1/limit-config", contract); a["error"] != "too many concurrent snapshots" ||
		r.shed.Load() != 1 {
		t.Errorf("answered %v", a)
	}
	<-r.places
	r.want(200, "POST", "/v1/limit-config", contract)
}

// A panic of the core affects only one answer.
func TestPanic(t *testing.T) {
	m := newLockedCore(core.Settings{})
	m.core = nil
	s := snapAt(monday)
	r, stack := m.post(s)
	if r.Result != core.Failed || r.Limit != s.Limit || !strings.Contains(stack, "core") {
		t.Errorf("answered %+v, %s", r, stack)
	}
}

// History is imported once, before the known one, and an unavailable server does not prevent a
// start.
func TestImport(t *testing.T) {
	now := time.Now().Truncate(time.Minute)
	server := httptest.NewServer(prometheus(now.Add(-9 * time.Hour)))
	defer server.Close()
	cfg := kept(filepath.Join(t.TempDir(), "s"))
	a := start(t, cfg)
	feed(t, a.locked, now.Add(-time.Hour), now, time.Minute)
	a.stop()

	cfg.HistoryURL = mustParse(t, server.URL)
	b := start(t, cfg)
	if v := b.locked.view(); v.Age < 8*time.Hour || v.Rounds != 60 || !strings.Contains(b.log.String(), "History loaded") {
		t.Errorf("%s of history are known after %d rounds\n%s", v.Age, v.Rounds, b.log)
	}
	for _, row := range b.locked.core.Recent(8*time.Hour, time.Minute) {
		if theirs := row.At.Before(now.Add(-time.Hour)); theirs && row.Rate != 7 || !theirs &&
			row.At.After(now.Add(-50*time.Minute)) && row.Rate < 15 {
			t.Errorf("the rate at %s is %g", row.At, row.Rate)
		}
	}
	b.stop()
	c := start(t, cfg)
	if text := c.log.String(); strings.Contains(text, "History loaded") {
		t.Errorf("it is imported again\n%s", text)
	}
	c.stop()
	cfg.HistoryURL, cfg.StateFile = mustParse(t, "http://"+testkit.FreeAddr(t)), ""
	d := start(t, cfg)
	if text := d.log.String(); !strings.Contains(text, "level=WARN") ||
		!strings.Contains(text, "History cannot be loaded, continuing without it") ||
		!strings.Contains(text, "connection refused") {
		t.Errorf("the log is\n%s", text)
	}
	d.post(snapAt(monday))
}

func mustParse(t *testing.T, text string) *url.URL {
	t.Helper()
	return testkit.Must(url.Parse(text))(t)
}

// prometheus answers 7 per second at every step since a time.
func prometheus(since time.Time) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var start, end, step int64
		_, _ = fmt.Sscan(r.FormValue("start")+" "+r.FormValue("end")+" "+r.FormValue("step"), &start, &end, &step)
		var values []string
		for at := start; at <= end; at += step {
			if at >= since.Unix() {
				values = append(values, fmt.Sprintf(`[%d,"7"]`, at))
			}
		}
		result := ""
		if len(values) > 0 {
			result = `{"metric":{},"values":[` + strings.Join(values, ",") + `]}`
		}
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[%s]}}`, result)
	})
}
