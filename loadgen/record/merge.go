package record

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/data/number"
)

// startSkewMax is how far apart generators may have started. It is more than the
// difference of clocks kept by NTP, and little enough for their requests to interleave
// approximately as scheduled.
const startSkewMax = 100 * time.Millisecond

// Merge merges the results of generators that shared a schedule. Counts and the
// histograms behind all percentiles add up exactly. The percentiles of a second are those
// of the worst generator, and peaks of connections are the sum. Missing generators make
// the result INVALID.
//
// It is an error if the results are not of one schedule, if two are of the same shard, or
// if one was written without its histograms.
func Merge(results ...*Result) (*Result, error) {
	if err := mergeable(results); err != nil {
		return nil, fmt.Errorf("merge results: %w", err)
	}
	results = slices.Clone(results)
	slices.SortStableFunc(results, func(a, b *Result) int { return a.Shards[0].Index - b.Shards[0].Index })
	sum := *results[0]
	sum.Peaks = append([]Peak{}, sum.Peaks...)
	for _, r := range results[1:] {
		sum.count(r)
		sum.describe(r)
	}
	sum.spread()
	sum.judge(results)
	sum.check(demands(results))
	return &sum, nil
}

// mergeable says why results cannot be merged.
func mergeable(results []*Result) error {
	if len(results) < 2 {
		return fmt.Errorf("at least two are needed, there are %d", len(results))
	}
	first := results[0]
	seen := map[int]bool{}
	for i, r := range results {
		switch {
		case r.Schema != schema:
			return fmt.Errorf("result %d has the schema %d, this program writes %d", i+1, r.Schema, schema)
		case len(r.Shards) == 0 || r.ScheduleHash == "" || !r.Histograms.present():
			return fmt.Errorf("result %d (test %s) has no schedule hash, shard or histograms: an older program wrote it",
				i+1, r.TestID)
		case r.ScheduleHash != first.ScheduleHash:
			return fmt.Errorf("result %d (test %s) has another schedule: its hash is %s, that of result 1 is %s", i+1,
				r.TestID, r.ScheduleHash, first.ScheduleHash)
		case r.Duration != first.Duration || r.Profile != first.Profile:
			return fmt.Errorf("result %d (test %s) ran %s for %v s, result 1 ran %s for %v s", i+1, r.TestID, r.Profile,
				r.Duration, first.Profile, first.Duration)
		}
		for _, s := range r.Shards {
			switch {
			case s.Of != first.Shards[0].Of || s.Index < 0 || s.Index >= s.Of:
				return fmt.Errorf("result %d (test %s) contains shard %d of %d, result 1 one of %d shards", i+1, r.TestID,
					s.Index, s.Of, first.Shards[0].Of)
			case seen[s.Index]:
				return fmt.Errorf("result %d (test %s) contains shard %d, which another result contains too", i+1, r.TestID,
					s.Index)
			}
			seen[s.Index] = true
		}
	}
	return nil
}

func (sum *Result) count(r *Result) {
	due := sum.Due + r.Due
	if due > 0 {
		sum.RateError = (sum.RateError*float64(sum.Due) + r.RateError*float64(r.Due)) / float64(due)
	}
	sum.Due = due
	sum.Sent += r.Sent
	sum.Unconnected += r.Unconnected
	sum.Dropped += r.Dropped
	sum.Unsent += r.Unsent
	sum.Completed += r.Completed
	sum.Success += r.Success
	sum.RateLimited += r.RateLimited
	sum.Shed += r.Shed
	sum.Errors += r.Errors
	sum.Abandoned += r.Abandoned
	sum.Retried += r.Retried
	sum.SentLate += r.SentLate
	sum.Received += r.Received
	sum.ErrorsByReason = addCounts(sum.ErrorsByReason, r.ErrorsByReason)
	sum.StatusCodes = addCounts(sum.StatusCodes, r.StatusCodes)
	sum.TargetRps += r.TargetRps
	sum.SentRps += r.SentRps
	sum.Throughput += r.Throughput
	sum.Loops += r.Loops
	sum.Connections.Max += r.Connections.Max
	sum.Connections.Peak += r.Connections.Peak
	sum.Connections.Opened += r.Connections.Opened
	sum.Connections.Failed += r.Connections.Failed
	sum.Histograms = sum.Histograms.plus(&r.Histograms)
	sum.Series = sum.Series.plus(r.Series)
}

// describe takes over from r what is not a count.
func (sum *Result) describe(r *Result) {
	sum.TestID += "+" + r.TestID
	sum.Shards = append(slices.Clone(sum.Shards), r.Shards...)
	sum.Elapsed = max(sum.Elapsed, r.Elapsed)
	if r.StartedAt.Before(sum.StartedAt) {
		sum.StartedAt = r.StartedAt
	}
	if r.End == EndStopped {
		sum.End = EndStopped
	}
	if len(r.Peaks) > len(sum.Peaks) { // the other was stopped early
		sum.Peaks = append([]Peak{}, r.Peaks...)
	}
	if sum.LastFault == "" {
		sum.LastFault = r.LastFault
	}
}

// judge sets the verdict to that of the worst generator, unless some are missing or did
// not start together.
func (sum *Result) judge(results []*Result) {
	sum.Verdict, sum.Reasons = Valid, []string{}
	if missing := sum.missing(); len(missing) > 0 {
		sum.Verdict = Invalid
		shards := "shards"
		if len(missing) == 1 {
			shards = "shard"
		}
		sum.Reasons = append(sum.Reasons,
			fmt.Sprintf("the results of %s %s of %d are missing: the target saw more than this, or less than planned",
				shards, strings.Join(missing, ", "), sum.Shards[0].Of))
	}
	last := slices.MaxFunc(results, func(a, b *Result) int { return a.StartedAt.Compare(b.StartedAt) })
	if skew := last.StartedAt.Sub(sum.StartedAt); skew > startSkewMax {
		sum.Verdict = Worse(sum.Verdict, Degraded)
		sum.Reasons = append(sum.Reasons,
			fmt.Sprintf("the generators started %s apart (startAt makes them begin together): the sum of their "+
				"rates was not the plan's", number.Duration(skew.Seconds())))
	}
	for _, r := range results {
		sum.Verdict = Worse(sum.Verdict, r.Verdict)
		for _, reason := range r.Reasons {
			sum.Reasons = append(sum.Reasons, fmt.Sprintf("shard %s: %s", r.Indices(), reason))
		}
	}
}

func (sum *Result) missing() (indices []string) {
	for i := range sum.Shards[0].Of {
		if !slices.ContainsFunc(sum.Shards, func(s Shard) bool { return s.Index == i }) {
			indices = append(indices, fmt.Sprint(i))
		}
		if len(indices) > shardsNamed {
			return append(indices, "…")
		}
	}
	return indices
}

// shardsNamed bounds the missing shards that are named.
const shardsNamed = 8

// Indices lists the shards of the result: "0, 2".
func (r *Result) Indices() string {
	words := make([]string, len(r.Shards))
	for i, s := range r.Shards {
		words[i] = strconv.Itoa(s.Index)
	}
	return strings.Join(words, ", ")
}

// demands returns the thresholds of the generators without duplicates.
func demands(results []*Result) (all []Threshold) {
	for _, r := range results {
		for _, old := range r.Thresholds {
			known := slices.ContainsFunc(all, func(t Threshold) bool { return t.Name == old.Name && t.Demand == old.Demand })
			if threshold, err := ParseThreshold(old.Name, old.Demand); err == nil && !known {
				all = append(all, threshold)
			}
		}
	}
	return all
}
