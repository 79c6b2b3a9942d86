package history

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

var noon = time.Date(2026, 1, 19, 12, 0, 0, 0, time.UTC)

// serve starts a server that answers with h.
func serve(t *testing.T, h http.HandlerFunc) Source {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	u := testkit.Must(url.Parse(s.URL + "/prefix/"))(t)
	return Source{URL: u, Query: "up # a comment"}
}

// The queries together have each step once, in pieces that a server accepts.
func TestPieces(t *testing.T) {
	asked := make(map[string]int)
	next := noon.Add(-coarseSpan)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/prefix/api/v1/query_range" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		start, _ := strconv.ParseInt(r.FormValue("start"), 10, 64)
		end, _ := strconv.ParseInt(r.FormValue("end"), 10, 64)
		step, _ := strconv.ParseInt(r.FormValue("step"), 10, 64)
		if first := time.Unix(start-step, 0); !first.Equal(next) {
			t.Errorf("a piece begins at %s, want %s", first.UTC(), next)
		}
		next = time.Unix(end, 0)
		if n := (end-start)/step + 1; n > 11_000 || n < 1 {
			t.Errorf("a piece has %d points", n)
		}
		asked[r.FormValue("query")]++
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[%d,"1"],[%d,"2.5"]]}]}}`, start, end)
	})
	rows := testkit.Must(s.Load(t.Context(), noon.Add(90*time.Second), time.Time{}))(t)
	if !next.Equal(noon.Add(time.Minute)) {
		t.Errorf("the last piece ends at %s", next.UTC())
	}
	if want := "map[avg_over_time((up # a comment\n)[300s:60s]):5 up # a comment:2]"; fmt.Sprint(asked) != want {
		t.Errorf("asked %v, want %v", asked, want)
	}
	if len(rows) != 14 || rows[0].Rate != 1 || rows[13].Rate != 2.5 || rows[0].Interval != coarseStep ||
		rows[13].Interval != fineStep {
		t.Errorf("rows %v", rows)
	}
}

// Points that are not rates are left out.
func TestPoints(t *testing.T) {
	first := true
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		result := ""
		if first {
			start, _ := strconv.ParseFloat(r.FormValue("start"), 64)
			var values []string
			for i, v := range []string{"1", "NaN", "+Inf", "-3", "0", "2e9", "1e-3"} {
				values = append(values, fmt.Sprintf("[%.3f,%q]", start+float64(i)*300, v))
			}
			values = append(values, `[5,"7"]`, `[5e10,"7"]`) // outside the query
			result = `{"metric":{"a":"b"},"values":[` + strings.Join(values, ",") + `]}`
		}
		first = false
		fmt.Fprint(w, `{"status":"success","data":{"resultType":"matrix","result":[`+result+`]}}`)
	})
	rows, err := s.Load(t.Context(), noon, time.Time{})
	if err != nil || len(rows) != 3 || rows[0].Rate != 1 || rows[1].Rate != 0 || math.Abs(rows[2].Rate-1e-3) > 1e-12 {
		t.Errorf("rows %v, %v", rows, err)
	}
}

func TestFaults(t *testing.T) {
	matrix := func(result string) string {
		return `{"status":"success","data":{"resultType":"matrix","result":[` + result + `]}}`
	}
	for _, c := range []struct {
		status     int
		body, want string
	}{
		{422, `{"status":"error","errorType":"execution","error":"found\nduplicate"}`,
			"the server says execution: found duplicate"},
		{503, "<html>", "the server says 503 Service Unavailable"},
		{200, "<html>hello", "is not that of a Prometheus API"},
		{200, `{"status":"success","data":{"resultType":"vector","result":[]}}`, `type "vector", not success and matrix`},
		{200, `[]`, "is not that of a Prometheus API"},
		{200, matrix(`{"values":[[1,"1"]]},{"values":[[1,"1"]]}`), "the query has 2 series"},
		{200, matrix(`{"values":[["x","1"]]}`), "point 0 of the answer is [x 1]"},
		{200, matrix(`{"values":[[1e300,"1"]]}`), "is at 1e+300 seconds"},
		{200, matrix(`{"values":[[1,"many"]]}`), "not seconds and a number in quotes"},
		{200, strings.Repeat(" ", answerMax+1), "is larger than"},
	} {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.body)
		})
		_, err := s.Load(t.Context(), noon, time.Time{})
		if err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), "load history from 2025-12-15T12:00:00Z to ") {
			t.Errorf("%d %.40q: %v, want %q", c.status, c.body, err, c.want)
		}
	}
}

// Rows before an error are kept, and errors do not contain passwords.
func TestAway(t *testing.T) {
	n := 0
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if n++; n > 1 {
			w.WriteHeader(500)
			return
		}
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[%s,"3"]]}]}}`,
			r.FormValue("end"))
	})
	if rows, err := s.Load(t.Context(), noon, time.Time{}); err == nil || len(rows) != 1 || rows[0].Rate != 3 {
		t.Errorf("rows %v, %v", rows, err)
	}
	s.URL = &url.URL{Scheme: "http", Host: testkit.FreeAddr(t), User: url.UserPassword("u", "secret"),
		RawQuery: "token=secret"}
	_, err := s.Load(t.Context(), noon, time.Time{})
	if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("a server that is away: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = s.Load(ctx, noon, time.Time{}); err == nil {
		t.Error("loaded after the end")
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,"3"]]}]}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		points, err := read(&http.Response{StatusCode: 200, Header: http.Header{}}, body)
		if err != nil && points != nil {
			t.Errorf("points %v with %v", points, err)
		}
	})
}
