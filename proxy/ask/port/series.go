package port

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/program/metric"
	"weir/proxy/ask/envoy"
)

// Bounds of what is counted separately. Beyond them, hits are counted in a series called other.
const (
	seriesMax    = 1000 // of a domain, since their names may contain values that clients choose
	unknownMax   = 100  // names of unknown domains
	nameBytesMax = 256
	other        = "other"
)

// method is the label of the only method of this kind in envoyproxy/ratelimit.
const method = `{grpc_method="ShouldRateLimit"}`

// series are the statistics of envoyproxy/ratelimit. They outlive the limits in force.
//
// Safe for concurrent use: mu guards the maps, whose values are atomic words.
type series struct {
	envoy.RequestCounts
	serviceErrors, storeErrors, apart, requests metric.Counter
	times                                       *metric.Histogram

	mu      sync.RWMutex
	domains map[string]map[string]*envoy.DescriptorCounts
	unknown map[string]*atomic.Uint64
}

func newSeries() *series {
	s := &series{domains: make(map[string]map[string]*envoy.DescriptorCounts), unknown: make(map[string]*atomic.Uint64),
		times: metric.NewHistogram(metric.LatencyBuckets())}
	s.Series, s.NotFound = s.of, s.notFound
	return s
}

// of returns the series of a name in a domain.
func (s *series) of(domain string, name []byte) *envoy.DescriptorCounts {
	if len(name) > nameBytesMax {
		name = []byte(other)
	}
	s.mu.RLock()
	one := s.domains[domain][string(name)]
	if one == nil && len(s.domains[domain]) >= seriesMax {
		one = s.domains[domain][other]
	}
	s.mu.RUnlock()
	if one != nil {
		return one
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	named := s.domains[domain]
	if named == nil {
		named = make(map[string]*envoy.DescriptorCounts)
		s.domains[domain] = named
	}
	key := string(name)
	if named[key] == nil && len(named) >= seriesMax {
		key = other
	}
	if named[key] == nil {
		named[key] = new(envoy.DescriptorCounts)
	}
	return named[key]
}

// notFound counts descriptors of an unknown domain.
func (s *series) notFound(domain []byte, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := string(domain)
	if s.unknown[name] == nil && len(s.unknown) >= unknownMax || len(name) > nameBytesMax {
		name = other
	}
	if s.unknown[name] == nil {
		s.unknown[name] = new(atomic.Uint64)
	}
	s.unknown[name].Add(uint64(n))
}

func (s *series) failed(stores bool) {
	if stores {
		s.storeErrors.Inc()
	} else {
		s.serviceErrors.Inc()
	}
}

func (s *series) took(d time.Duration) {
	s.requests.Inc()
	s.times.Observe(d)
}

// hitCounts are the counts of a series.
var hitCounts = [...]struct {
	name, help string
	count      func(*envoy.DescriptorCounts) *atomic.Uint64
}{
	{"total_hits", "hits of descriptors with a limit",
		func(s *envoy.DescriptorCounts) *atomic.Uint64 { return &s.TotalHits }},
	{"over_limit", "hits that were over their limit",
		func(s *envoy.DescriptorCounts) *atomic.Uint64 { return &s.OverLimit }},
	{"near_limit", "hits within their limit and above the share NEAR_LIMIT_RATIO of it",
		func(s *envoy.DescriptorCounts) *atomic.Uint64 { return &s.NearLimit }},
	{"over_limit_with_local_cache", "hits over their limit for which the store was not asked",
		func(s *envoy.DescriptorCounts) *atomic.Uint64 { return &s.Cached }},
	{"within_limit", "hits within their limit", func(s *envoy.DescriptorCounts) *atomic.Uint64 { return &s.WithinLimit }},
	{"shadow_mode", "hits over a limit in shadow mode",
		func(s *envoy.DescriptorCounts) *atomic.Uint64 { return &s.ShadowMode }},
}

func (s *series) register(set *metric.Set) {
	for _, m := range hitCounts {
		set.Counters("ratelimit_service_rate_limit_"+m.name, m.help, s.each(m.count))
	}
	set.Counters("ratelimit_service_rate_limit_domain_not_found", "descriptors of a domain that no file has",
		s.eachUnknown)
	set.Counter(`ratelimit_service_should_rate_limit_error{err_type="redis_error"}`, "requests that were not decided",
		s.storeErrors.Load)
	set.Counter(`ratelimit_service_should_rate_limit_error{err_type="service_error"}`,
		"requests that were not decided", s.serviceErrors.Load)
	set.Counter("ratelimit_service_total_requests"+method, "requests with descriptors", s.requests.Load)
	set.Histogram("ratelimit_service_response_time_seconds"+method, "how long requests with descriptors took", s.times)
	set.Counter("ratelimit_service_global_shadow_mode", "requests that only SHADOW_MODE let pass", s.GlobalShadow.Load)
	set.Counter("ratelimiter_descriptors_apart_total", "requests with more limits than can be decided together",
		s.apart.Load)
	set.Counter("ratelimiter_descriptors_clipped_total", "late charges that were not made in full because of DEBT_MAX",
		s.Clipped.Load)
}

// each adds the samples of one count, in the order of names.
func (s *series) each(count func(*envoy.DescriptorCounts) *atomic.Uint64) func(add func(labels string, n uint64)) {
	return func(add func(labels string, n uint64)) {
		for _, one := range s.all() {
			add(seriesLabels(one.domain, one.name), count(one.DescriptorCounts).Load())
		}
	}
}

func (s *series) eachUnknown(add func(labels string, n uint64)) {
	s.allUnknown(func(domain string, n uint64) { add(metric.Labels("domain", domain), n) })
}

// A namedSeries is a series with its name.
type namedSeries struct {
	domain, name string
	*envoy.DescriptorCounts
}

// all returns all series in the order of names. Event loops wait for the lock, so they are only copied under it.
func (s *series) all() []namedSeries {
	var list []namedSeries
	s.mu.RLock()
	for domain, series := range s.domains {
		for name, one := range series {
			list = append(list, namedSeries{domain, name, one})
		}
	}
	s.mu.RUnlock()
	slices.SortFunc(list, func(a, b namedSeries) int {
		return cmp.Or(strings.Compare(a.domain, b.domain), strings.Compare(a.name, b.name))
	})
	return list
}

// allUnknown adds the counts of unknown domains in the order of names.
func (s *series) allUnknown(add func(domain string, n uint64)) {
	s.mu.RLock()
	unknown := maps.Clone(s.unknown)
	s.mu.RUnlock()
	for _, domain := range slices.Sorted(maps.Keys(unknown)) {
		add(domain, unknown[domain].Load())
	}
}

// seriesLabels returns the labels of a series.
func seriesLabels(domain, name string) string {
	key1, key2, two := strings.Cut(name, "\x00")
	if two {
		return metric.Labels("domain", domain, "key1", key1, "key2", key2)
	}
	return metric.Labels("domain", domain, "key1", key1)
}
