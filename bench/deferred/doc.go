// Package deferred measures and shows deferred delivery: how fast refused requests are stored, what many
// that wait cost, when and how fast they are delivered, and what live requests pay.
package deferred

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"weir/bench/report"
	"weir/bench/rig"
)

// A lab is one run of the experiment.
//
// Owned by one goroutine.
type lab struct{ rig.Lab }

// Run measures all. The error says what was not as it should be.
func Run(ctx context.Context, out io.Writer) error {
	l := &lab{rig.Lab{Out: out}}
	return l.Play(ctx, []rig.Part{{Name: "accept", Play: l.accept}, {Name: "deliveries", Play: l.deliveries}, {Name: "live", Play: l.live}},
		"what is refused is stored about as fast as the disk can, delivered when and as fast as its limit allows, and live requests pay nothing.")
}

// start starts a proxy of settings with a target until the part ends.
func (l *lab) start(ctx context.Context, env []string) (*rig.Rig, error) {
	r, err := rig.Topology{Proxy: env}.Start(ctx)
	if err == nil {
		l.Keep(func() { _ = r.Stop() })
	}
	return r, err
}

// settings are those of a proxy with a rule for POST, and one for PUT if there are two terms: limits
// and whether they defer.
func (l *lab) settings(name string, terms ...string) ([]string, error) {
	file, rules := filepath.Join(l.Dir, name+".yaml"), "rules:\n"
	for i, t := range terms {
		method := [...]string{"POST", "PUT"}[i]
		rules += fmt.Sprintf("- {id: %s, match: {methods: [%s]}, %s}\n", method, method, t)
	}
	return []string{"RULES_FILE=" + file, "RATE_LIMIT_ALGORITHM=off", "GATE=off", "DEFER_URL=file:" + filepath.Join(l.Dir, name),
		"DEFER_RATE=1000000", "DEFER_MAX=10000000", "DEFER_MAX_BYTES=100GiB"}, os.WriteFile(file, []byte(rules), 0o600)
}

// quantiles shows how waits are distributed, which are in order.
func quantiles(waits []time.Duration) string {
	return fmt.Sprintf("p50 %.2f ms, p99 %.2f ms, longest %.1f ms", report.Millis(report.Quantile(waits, .5)), report.Millis(report.Quantile(waits, .99)), report.Millis(report.Quantile(waits, 1)))
}

func megabytes(bytes int64) float64 { return float64(bytes) / 1e6 }
