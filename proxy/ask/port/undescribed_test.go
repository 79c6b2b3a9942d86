package port

import (
	"context"
	"strings"
	"testing"
	"time"

	"weir/internal/net/http1"
	"weir/internal/program/metric"
	"weir/internal/test/testkit"
	"weir/proxy/store/simredis"
)

// Requests that cannot be described are counted, and logged once a minute with the outcome.
func TestUndescribedIsTold(t *testing.T) {
	for _, admit := range []bool{true, false} {
		s := testkit.Must(simredis.NewStore(simredis.Config{}))(t)
		defer s.Close()
		log := new(testkit.Log)
		p := startWith(t, Config{Limits: new(Limits), Store: s, Head: http1.Limits{Fields: 5}, AdmitUndescribed: admit,
			Log: log.Logger()})
		defer p.Drain(context.Background())
		want, outcome := 431, "refused"
		if admit {
			want, outcome = 200, "admitted"
		}
		for range 3 {
			c := testkit.Dial(t, p.Addr().String())
			c.Send("GET /check/path/a HTTP/1.1\r\nHost: h\r\n" + strings.Repeat("A: b\r\n", 30) + "\r\n")
			if res, body := c.Answer("GET"); res.StatusCode != want {
				t.Errorf("%d %q, want %d", res.StatusCode, body, want)
			}
		}
		on(p, func(now time.Time, r *side) bool {
			r.undescribed(now.Add(time.Minute), "latest")
			return true
		})
		for _, line := range []string{"count=1 ", "count=3 latest=latest"} {
			if n := len(log.Lines(`msg="Requests cannot be described" outcome=` + outcome + " " + line)); n != 1 {
				t.Errorf("admit %t: %d lines with %q in\n%s", admit, n, line, log)
			}
		}
		set := metric.New()
		p.Register(set)
		var text strings.Builder
		if set.Write(&text); !strings.Contains(text.String(), "\nratelimiter_check_undescribed_total 4\n") {
			t.Errorf("the metrics say\n%s", text.String())
		}
	}
}
