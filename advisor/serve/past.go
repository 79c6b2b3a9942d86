package serve

import (
	"context"
	"log/slog"
	"time"

	"weir/advisor/history"
	"weir/internal/data/mask"
)

const (
	importMax = 20 * time.Second    // for which loading history may delay serving
	enough    = 34 * 24 * time.Hour // of our own history makes loading unnecessary
	gain      = 6 * time.Hour       // by which the loaded history must be older to be used
)

// loadPast imports what a server has for the time before our own history. If it is
// unavailable the advisor starts without it.
func (l *lockedCore) loadPast(ctx context.Context, now time.Time, from history.Source, log *slog.Logger) {
	age, until := l.core.HistoryAge()
	if age >= enough {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, importMax)
	defer cancel()
	rows, err := from.Load(ctx, now, until)
	if err != nil {
		log.Warn("History cannot be loaded, continuing without it", "error", err, "rows", len(rows))
	}
	if len(rows) == 0 {
		if err == nil && until.IsZero() {
			log.Warn("History is empty: the server has no data for the query in the last five weeks", "url",
				mask.Value(from.URL.String()), "query", from.Query)
		}
		return
	}
	if !until.IsZero() && until.Sub(rows[0].At) < gain {
		return
	}
	l.core.Import(rows)
	log.Info("History loaded", "rows", len(rows), "from", rows[0].At.UTC(), "to", rows[len(rows)-1].At.UTC())
}
