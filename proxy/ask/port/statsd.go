package port

import (
	"context"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/program/metric"
	"weir/internal/timing/every"
)

// A Statsd says where statistics are sent in the form of statsd, under the names of envoyproxy/ratelimit.
type Statsd struct {
	Addr     string            // host:port, by UDP; empty: they are not sent
	Tags     map[string]string // of all names
	Interval time.Duration
}

// packetBytesMax bounds a packet, so that no network divides it.
const packetBytesMax = 1400

// sendTimeout bounds the look-up of the server's address, and the writing of packets.
const sendTimeout = time.Second

// A sender sends what the statistics have grown by.
//
// Owned by its goroutine, except errors.
type sender struct {
	cfg    Statsd
	series *series
	limits *Limits
	tags   string
	sent   map[string]uint64 // bounded as the statistics are
	packet []byte
	last   string    // address of the server
	to     io.Writer // the connection to it, in flush
	errors metric.Counter
}

func newSender(cfg Statsd, s *series, l *Limits) *sender {
	d := &sender{cfg: cfg, series: s, limits: l, sent: make(map[string]uint64)}
	for _, name := range slices.Sorted(maps.Keys(cfg.Tags)) {
		d.tags += ".__" + plain(name) + "=" + plain(cfg.Tags[name])
	}
	return d
}

// keep sends until ctx ends, and once more, to the last address: the end of the process does not wait for
// another look-up.
func (d *sender) keep(ctx context.Context) {
	d.sendAll(ctx, d.cfg.Addr)
	every.Interval(ctx.Done(), d.cfg.Interval, func(time.Time) { d.sendAll(ctx, d.cfg.Addr) })
	d.sendAll(context.Background(), d.last)
}

// sendAll connects anew each time, since the address of the server may change.
func (d *sender) sendAll(ctx context.Context, addr string) {
	conn, err := (&net.Dialer{Timeout: sendTimeout}).DialContext(ctx, "udp", addr)
	if err != nil {
		d.errors.Inc()
		return
	}
	defer conn.Close()
	d.last = conn.RemoteAddr().String()
	_ = conn.SetWriteDeadline(time.Now().Add(sendTimeout))
	d.to = conn
	d.flush()
}

// flush writes packets with what has grown since the last flush.
func (d *sender) flush() {
	const requests = "ratelimit_server.ShouldRateLimit.total_requests"
	const response = "ratelimit_server.ShouldRateLimit.response_time"
	d.series.names(d.count)
	d.count("ratelimit.service.config_load_success", d.limits.loaded.Load())
	d.count("ratelimit.service.config_load_error", d.limits.failed.Load())
	count := d.grown(requests, d.series.requests.Load())
	took := time.Duration(d.grown(response, uint64(d.series.times.Sum())))
	if count > 0 {
		d.add(requests, strconv.FormatUint(count, 10)+"|c")
		mean := float64(took.Microseconds()) / 1000 / float64(count)
		d.add(response, strconv.FormatFloat(mean, 'f', 3, 64)+"|ms|@"+strconv.FormatFloat(1/float64(count), 'g', 6, 64))
	}
	d.end()
}

// count adds what a counter has grown by, if it has.
func (d *sender) count(name string, n uint64) {
	if grown := d.grown(name, n); grown > 0 {
		d.add(name, strconv.FormatUint(grown, 10)+"|c")
	}
}

func (d *sender) grown(name string, n uint64) uint64 {
	before := d.sent[name]
	d.sent[name] = n
	return n - before
}

func (d *sender) add(name, value string) {
	line := name + d.tags + ":" + value + "\n"
	if len(d.packet)+len(line) > packetBytesMax {
		d.end()
	}
	d.packet = append(d.packet, line...)
}

func (d *sender) end() {
	if len(d.packet) > 0 {
		if _, err := d.to.Write(d.packet); err != nil {
			d.errors.Inc()
		}
	}
	d.packet = d.packet[:0]
}

// plain replaces what separates the parts of a line.
var plain = strings.NewReplacer(":", "_", "|", "_", "\n", "_", "@", "_", "#", "_").Replace

// names adds the counts under the names that they have in statsd.
func (s *series) names(add func(name string, n uint64)) {
	add("ratelimit.service.call.should_rate_limit.redis_error", s.storeErrors.Load())
	add("ratelimit.service.call.should_rate_limit.service_error", s.serviceErrors.Load())
	add("ratelimit.service.global_shadow_mode", s.GlobalShadow.Load())
	const prefix = "ratelimit.service.rate_limit."
	for _, one := range s.all() {
		key := prefix + plain(one.domain) + "." + plain(strings.ReplaceAll(one.name, "\x00", ".")) + "."
		for _, c := range hitCounts {
			add(key+c.name, c.count(one.DescriptorCounts).Load())
		}
	}
	s.allUnknown(func(domain string, n uint64) { add(prefix+plain(domain)+".domain_not_found", n) })
}
