package serve

import (
	"context"
	"log/slog"
	"time"

	"weir/advisor/history"
)

const (
	// importMax bounds how long loading history may delay serving.
	importMax = 20 * time.Second
	// enough is how much history of our own makes loading unnecessary.
	enough = 34 * 24 * time.Hour
	// gain is how much older the loaded history must be to be used.
	gain = 6 * time.Hour
)

// loadPast imports what a server has for the time before our own history. If it is
// unavailable the advisor starts without it.
func (m *mind) loadPast(ctx context.Context, now time.Time, from history.Source, log *slog.Logger) {
	age, until := m.core.Known()
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
			log.Warn("History is empty: the server knows nothing of the query in the last five weeks", "url", from.URL.Redacted(), "query", from.Query)
		}
		return
	}
	if !until.IsZero() && until.Sub(rows[0].At) < gain {
		return
	}
	m.core.Import(rows)
	log.Info("History loaded", "rows", len(rows), "from", rows[0].At.UTC(), "to", rows[len(rows)-1].At.UTC())
}
