package history

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"

	"weir/advisor/series"
	"weir/internal/data/mask"
)

const (
	fineStep   = time.Minute
	fineSpan   = 48 * time.Hour
	coarseStep = 5 * time.Minute
	coarseSpan = 35 * 24 * time.Hour

	pointsMax       = 2016             // of one query, a week by five minutes; servers refuse more than 11,000
	questionTimeout = 15 * time.Second // of one query
	rateMax         = 1e9              // above any plausible rate
)

// A Source is a query of a server.
type Source struct {
	URL   *url.URL // the server's, including what precedes /api/v1
	Query string   // an expression for one series in requests per second
}

// Load returns what the server has for the time up to now and before until, by ascending
// time. A zero until means no bound. Points that are not rates are left out, and pieces
// without data are skipped. Rows loaded before an error are valid and returned with it.
func (s Source) Load(ctx context.Context, now, until time.Time) ([]series.Row, error) {
	end := now.Truncate(coarseStep)
	fineFrom := end.Add(-fineSpan)
	late := func(r series.Row) bool { return !until.IsZero() && r.At.After(until) }
	var rows []series.Row
	for _, p := range slices.Concat(pieces(end.Add(-coarseSpan), fineFrom, coarseStep),
		pieces(fineFrom, now.Truncate(fineStep), fineStep)) {
		more, err := s.piece(ctx, p)
		if err != nil {
			return rows, err
		}
		rows = append(rows, slices.DeleteFunc(more, late)...)
	}
	return rows, nil
}

// A piece has the steps that end after From and not after To.
type piece struct {
	from, to time.Time
	step     time.Duration
}

// pieces splits (from, to] into pieces of at most pointsMax steps.
func pieces(from, to time.Time, step time.Duration) (all []piece) {
	for from.Before(to) {
		end := from.Add(pointsMax * step)
		if end.After(to) {
			end = to
		}
		all = append(all, piece{from, end, step})
		from = end
	}
	return all
}

// piece loads one piece.
func (s Source) piece(ctx context.Context, p piece) ([]series.Row, error) {
	ctx, cancel := context.WithTimeout(ctx, questionTimeout)
	defer cancel()
	rows, err := s.ask(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("load history from %s to %s from %s: %w",
			p.from.UTC().Format(time.RFC3339), p.to.UTC().Format(time.RFC3339), mask.Value(s.URL.String()), err)
	}
	kept, last := rows[:0], p.from
	for _, r := range rows {
		if r.Rate >= 0 && r.Rate <= rateMax && r.At.After(last) && !r.At.After(p.to) { // false for NaN
			r.Interval, last = p.step, r.At
			kept = append(kept, r)
		}
	}
	return kept, nil
}

// expression returns the expression for a step: the query, averaged over the step if that
// is longer than a minute.
func (s Source) expression(step time.Duration) string {
	if step == fineStep {
		return s.Query
	}
	// On a separate line, in case the query ends with a comment.
	return fmt.Sprintf("avg_over_time((%s\n)[%ds:%ds])", s.Query, int(step.Seconds()), int(fineStep.Seconds()))
}
