package rig

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Samples are the metrics of a program at one moment, by name with labels.
type Samples map[string]float64

// Scrape reads the metrics of the program at addr.
func Scrape(ctx context.Context, addr string) (Samples, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	text, err := do(req)
	if err != nil {
		return nil, err
	}
	samples := make(Samples)
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		line := lines.Text()
		i := strings.LastIndexByte(line, ' ')
		if i < 0 || strings.HasPrefix(line, "#") {
			continue
		}
		v, err := strconv.ParseFloat(line[i+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("scrape %s: %q: %w", addr, line, err)
		}
		samples[line[:i]] = v
	}
	return samples, nil
}

// Sum adds all samples of a family that carry every one of the labels, each
// written as name="value".
func (s Samples) Sum(family string, labels ...string) (sum float64) {
next:
	for name, v := range s {
		if name != family && !strings.HasPrefix(name, family+"{") {
			continue
		}
		for _, l := range labels {
			if !strings.Contains(name, l) {
				continue next
			}
		}
		sum += v
	}
	return sum
}

// Since is by how much a sum has grown since an earlier moment.
func (s Samples) Since(before Samples, family string, labels ...string) float64 {
	return s.Sum(family, labels...) - before.Sum(family, labels...)
}

// Served is how many requests to /api/test the target answered 200 so far.
func Served(ctx context.Context, targetAddr string) (uint64, error) {
	s, err := Scrape(ctx, targetAddr)
	return uint64(s.Sum("http_server_requests_seconds_count", `uri="/api/test"`, `status="200"`)), err
}

// Quantile is a quantile of what a histogram counted since an earlier moment, in its
// unit: linear within a bucket, as Prometheus does it; zero when nothing was counted, the
// largest finite bound when it lies beyond. Series without one of the labels do not count.
func (s Samples) Quantile(q float64, before Samples, family string, labels ...string) float64 {
	return quantile(q, s.buckets(before, family, labels))
}

// buckets are by how much the cumulative counts of a histogram have grown, by their upper
// bounds, over all its series.
func (s Samples) buckets(before Samples, family string, labels []string) map[float64]float64 {
	grown := make(map[float64]float64)
next:
	for name, v := range s {
		rest, ours := strings.CutPrefix(name, family+"_bucket{")
		_, le, bounded := strings.Cut(rest, `le="`)
		if !ours || !bounded {
			continue
		}
		for _, l := range labels {
			if !strings.Contains(rest, l) {
				continue next
			}
		}
		le, _, _ = strings.Cut(le, `"`)
		if bound, err := strconv.ParseFloat(le, 64); err == nil { // +Inf too
			grown[bound] += v - before[name]
		}
	}
	return grown
}

// quantile reads a quantile from the cumulative counts of a histogram's buckets
// by their upper bounds.
func quantile(q float64, buckets map[float64]float64) float64 {
	bounds := slices.Sorted(maps.Keys(buckets))
	if len(bounds) == 0 {
		return 0
	}
	total := buckets[bounds[len(bounds)-1]]
	if total <= 0 {
		return 0
	}
	rank, low, below := q*total, 0.0, 0.0
	for _, bound := range bounds {
		n := buckets[bound]
		if n >= rank && n > below {
			if math.IsInf(bound, 1) {
				return low
			}
			return low + (bound-low)*(rank-below)/(n-below)
		}
		low, below = bound, n
	}
	return low
}
