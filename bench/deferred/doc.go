// Package deferred measures deferred delivery: how fast refused requests are stored, what many
// that wait cost, when and how fast they are delivered, and what live requests pay.
package deferred

import (
	"context"
	"errors"
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
type lab struct {
	out   io.Writer
	e     report.Expectations
	loads []*rig.Loaded // all that were played
	dir   string        // of queues and rules, on the disk that is measured
}

// Run measures all. The error says what was not as it should be.
func Run(ctx context.Context, out io.Writer) (err error) {
	l := &lab{out: out}
	if l.dir, err = os.MkdirTemp("", "weir-deferred-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(l.dir)) }()
	for _, part := range []func(context.Context) error{l.accept, l.deliveries, l.live} {
		ctx, end := context.WithCancel(ctx)
		err := part(ctx)
		end()
		if err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "\n%s", l.e.Table())
	return l.e.Conclude(out, "what is refused is stored about as fast as the disk can, delivered when and as fast as its limit allows, and live requests pay nothing.", rig.Inconclusive(l.loads...))
}

// settings are those of a proxy with a rule for POST, and one for PUT if there are two terms: limits
// and whether they defer.
func (l *lab) settings(name string, terms ...string) ([]string, error) {
	file, rules := filepath.Join(l.dir, name+".yaml"), "rules:\n"
	for i, t := range terms {
		method := [...]string{"POST", "PUT"}[i]
		rules += fmt.Sprintf("- {id: %s, match: {methods: [%s]}, %s}\n", method, method, t)
	}
	return []string{"RULES_FILE=" + file, "RATE_LIMIT_ALGORITHM=off", "GATE=off", "DEFER_URL=file:" + filepath.Join(l.dir, name),
		"DEFER_RATE=1000000", "DEFER_MAX=10000000", "DEFER_MAX_BYTES=100GiB"}, os.WriteFile(file, []byte(rules), 0o600)
}

// quantiles shows how waits are distributed, which are in order.
func quantiles(waits []time.Duration) string {
	return fmt.Sprintf("p50 %.2f ms, p99 %.2f ms, longest %.1f ms", ms(report.Quantile(waits, .5)), ms(report.Quantile(waits, .99)), ms(report.Quantile(waits, 1)))
}

func ms(d time.Duration) float64 { return 1e3 * d.Seconds() }

func megabytes(bytes int64) float64 { return float64(bytes) / 1e6 }
