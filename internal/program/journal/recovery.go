package journal

import (
	"context"
	"log/slog"
)

// LogRecovery logs at the level info that what a warning was about is over. If that level is off, it is a
// warning as well: who reads when something failed must also read when it works again.
func LogRecovery(log *slog.Logger, message string, args ...any) {
	level := slog.LevelInfo
	if !log.Enabled(context.Background(), level) {
		level = slog.LevelWarn
	}
	log.Log(context.Background(), level, message, args...)
}
