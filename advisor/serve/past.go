package serve

import (
	"context"
	"log/slog"
	"time"

	"weir/advisor/forecast"
	"weir/advisor/history"
	"weir/advisor/series"
)

const (
	// importMax is how long loading history may keep the advisor from serving.
	importMax = 20 * time.Second
	// enough is how much history of our own makes that of others superfluous.
	enough = 34 * 24 * time.Hour
	// gain is how much older the others' must be to be worth it.
	gain = 6 * time.Hour
)

// loadPast imports what a server knows of the time before our own history. That it
// is away is no reason not to start.
func (c *core) loadPast(ctx context.Context, now time.Time, from history.Source, log *slog.Logger) {
	own := c.now.future.History()
	var until time.Time
	if newest, ok := own.Newest(); ok {
		if own.Age() >= enough {
			return
		}
		until = newest.Add(-own.Age())
	}
	ctx, cancel := context.WithTimeout(ctx, importMax)
	defer cancel()
	rows, err := from.Load(ctx, now, until)
	if err != nil {
		log.Warn("History cannot be loaded, going on without", "error", err, "rows", len(rows))
	}
	if len(rows) == 0 {
		if err == nil && until.IsZero() {
			log.Warn("History is empty: the server knows nothing of the query in the last five weeks", "url", from.URL.Redacted(), "query", from.Query)
		}
		return
	}
	if !until.IsZero() && until.Sub(rows[0].At) < gain {
		return
	}
	c.importRows(rows)
	log.Info("History loaded", "rows", len(rows), "from", rows[0].At.UTC(), "to", rows[len(rows)-1].At.UTC())
}

// importRows puts rows before our own history. As a forecaster only learns
// forwards, another one learns both.
func (c *core) importRows(rows []history.Row) {
	f := forecast.New(c.tuning.Forecast)
	loaded := make([]series.Row, len(rows))
	for i, r := range rows {
		loaded[i] = series.Row{At: r.At, Interval: r.Interval, Rate: r.Rate, Coverage: 1}
	}
	f.Load(loaded)
	f.Load(ownRows(c.now.future.History()))
	if job, due := f.Refit(); due {
		if model, err := job.Run(); err == nil {
			f.Adopt(model)
		}
	}
	c.now.future = f
	c.now.recall()
}

// ownRows are the rows of a history, as fine as it goes back.
func ownRows(h *series.History) []series.Row {
	newest, ok := h.Newest()
	if !ok {
		return nil
	}
	raw := h.Raw(newest.Add(-rawSpan), newest)
	border := newest
	if len(raw) > 0 {
		border = raw[0].At.Add(-raw[0].Interval)
	}
	fine := newest.Add(-series.Minute.Span()).Truncate(series.FiveMinutes.Width())
	coarse := newest.Add(-series.FiveMinutes.Span()).Truncate(series.Hour.Width()).Add(series.Hour.Width())
	rows := h.Rows(series.Hour, newest.Add(-series.Hour.Span()), coarse)
	rows = append(rows, h.Rows(series.FiveMinutes, coarse, fine)...)
	rows = append(rows, h.Rows(series.Minute, fine, border)...)
	return append(rows, raw...)
}

// rawSpan is how far back rates are kept as they came.
const rawSpan = 6 * time.Hour
