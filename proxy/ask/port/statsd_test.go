package port

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

// sentPackets are the packets that a sender has written.
type sentPackets []string

func (p *sentPackets) Write(packet []byte) (int, error) {
	*p = append(*p, string(packet))
	return len(packet), nil
}

// Statistics are sent under the names of envoyproxy/ratelimit: what they have grown by, and only if they have.
func TestStatsd(t *testing.T) {
	s, l := newSeries(), &Limits{log: slog.New(slog.DiscardHandler)}
	d := newSender(Statsd{Tags: map[string]string{"zone": "a", "build": "x:y"}}, s, l)
	var packets sentPackets
	d.to = &packets
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

// Event loops do not wait while statistics are written.
func TestSeriesAreWrittenWithoutLock(t *testing.T) {
	s := newSeries()
	s.of("shop", []byte("plan")).TotalHits.Add(1)
	s.notFound([]byte("none"), 1)
	n := 0
	free := func(string, uint64) {
		if n++; !s.mu.TryLock() {
			t.Fatal("the lock is held")
		}
		s.mu.Unlock()
	}
	s.names(free)
	s.each(hitCounts[0].count)(free)
	s.eachUnknown(free)
	if want := 3 + len(hitCounts) + 1 + 1 + 1; n != want {
		t.Errorf("%d counts, want %d", n, want)
	}
}

// The last statistics go to the last address, whose name is not looked up again.
func TestLastStatistics(t *testing.T) {
	socket := testkit.Must(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	defer socket.Close()
	s := newSeries()
	s.failed(true)
	d := newSender(Statsd{Addr: "statsd.invalid:8125", Interval: time.Hour}, s, &Limits{})
	d.last = socket.LocalAddr().String()
	ctx, stop := context.WithCancel(context.Background())
	stop()
	d.keep(ctx)
	packet := make([]byte, packetBytesMax)
	_ = socket.SetReadDeadline(time.Now().Add(testkit.Timeout))
	if n, _, err := socket.ReadFrom(packet); err != nil || !strings.Contains(string(packet[:n]), "redis_error:1|c") {
		t.Errorf("sent %q, %v", packet[:n], err)
	}
}
