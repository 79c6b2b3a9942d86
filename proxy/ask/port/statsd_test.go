package port

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// Statistics are sent under the names of envoyproxy/ratelimit: what they have grown by, and only if they have.
func TestStatsd(t *testing.T) {
	s, l := newSeries(), &Limits{log: slog.New(slog.DiscardHandler)}
	d := newSender(Statsd{Tags: map[string]string{"zone": "a", "build": "x:y"}}, s, l)
	var packets []string
	d.write = func(packet []byte) { packets = append(packets, string(packet)) }
	flush := func() string {
		packets = nil
		d.flush()
		return strings.Join(packets, "")
	}
	const tags = ".__build=x_y.__zone=a:"
	s.of("shop", []byte("plan_gold\x00user")).TotalHits.Add(3)
	s.of("a|b", []byte("k")).OverLimit.Add(1)
	s.notFound([]byte("none"), 2)
	s.failed(true)
	l.loaded.Inc()
	s.took(time.Millisecond)
	s.took(2 * time.Millisecond)
	want := "ratelimit.service.call.should_rate_limit.redis_error" + tags + "1|c\n" +
		"ratelimit.service.rate_limit.a_b.k.over_limit" + tags + "1|c\n" +
		"ratelimit.service.rate_limit.shop.plan_gold.user.total_hits" + tags + "3|c\n" +
		"ratelimit.service.rate_limit.none.domain_not_found" + tags + "2|c\n" +
		"ratelimit.service.config_load_success" + tags + "1|c\n" +
		"ratelimit_server.ShouldRateLimit.total_requests" + tags + "2|c\n" +
		"ratelimit_server.ShouldRateLimit.response_time" + tags + "1.500|ms|@0.5\n"
	if sent := flush(); sent != want {
		t.Errorf("sent\n%swant\n%s", sent, want)
	}
	if sent := flush(); sent != "" {
		t.Errorf("sent %q again", sent)
	}
	s.of("shop", []byte("plan_gold\x00user")).TotalHits.Add(4)
	if sent := flush(); sent != "ratelimit.service.rate_limit.shop.plan_gold.user.total_hits"+tags+"4|c\n" {
		t.Errorf("sent %q", sent)
	}
	for i := range 100 {
		s.of("shop", fmt.Appendf(nil, "key_%d", i)).WithinLimit.Add(1)
	}
	if lines := strings.Count(flush(), "\n"); lines != 100 || len(packets) < 2 {
		t.Errorf("%d lines in %d packets", lines, len(packets))
	}
	for _, packet := range packets {
		if len(packet) > packetBytesMax {
			t.Errorf("a packet has %d bytes", len(packet))
		}
	}
}
