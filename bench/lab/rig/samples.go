package rig

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Metrics are the metrics of a program at one moment, by name with labels.
type Metrics map[string]float64

// Scrape reads the metrics of the program at addr.
func Scrape(ctx context.Context, addr string) (Metrics, error) {
	text, err := Get(ctx, "http://"+addr+"/metrics")
	if err != nil {
		return nil, err
	}
	samples := make(Metrics)
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

// Sum returns the sum of the samples of a family that have all labels, each of the form
// name="value".
func (m Metrics) Sum(family string, labels ...string) (sum float64) {
	for name, v := range m {
		if (name == family || strings.HasPrefix(name, family+"{")) && carries(name, labels) {
			sum += v
		}
	}
	return sum
}

// carries reports whether the name of a sample contains every one of the labels.
func carries(name string, labels []string) bool {
	return !slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(name, l) })
}

// Since returns the increase of a sum since an earlier moment.
func (m Metrics) Since(before Metrics, family string, labels ...string) float64 {
	return m.Sum(family, labels...) - before.Sum(family, labels...)
}

// Served returns how many requests to /api/test the target has answered with 200 so far.
func (l *Lab) Served(targetAddr string) uint64 {
	return uint64(l.Scrape(targetAddr).Sum("http_server_requests_seconds_count", `uri="/api/test"`, `status="200"`))
}

// Quantile returns a quantile of what a histogram has counted since an earlier moment, in its
// unit. Like Prometheus it interpolates linearly within a bucket. It returns zero if nothing was
// counted, and the largest finite bound if the quantile is above it. Only series with all labels
// count.
func (m Metrics) Quantile(q float64, before Metrics, family string, labels ...string) float64 {
	grown := make(map[float64]float64) // cumulative counts by upper bound, summed over the series
	for name, v := range m {
		rest, ours := strings.CutPrefix(name, family+"_bucket{")
		_, le, bounded := strings.Cut(rest, `le="`)
		if !ours || !bounded || !carries(rest, labels) {
			continue
		}
		le, _, _ = strings.Cut(le, `"`)
		if bound, err := strconv.ParseFloat(le, 64); err == nil { // +Inf too
			grown[bound] += v - before[name]
		}
	}
	return quantile(q, grown)
}

// quantile returns a quantile from cumulative counts by upper bound.
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
