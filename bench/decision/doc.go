// Package decision measures Envoy's rate limit service as JSON, beside envoyproxy/ratelimit:
// what decisions cost, how long they take, and what becomes of them when Redis stops.
package decision

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weir/bench/report"
	"weir/bench/rig"
	"weir/internal/freeport"
	"weir/internal/service"
)

// Parts of the experiment.
var parts = []string{"speed", "pace", "frozen"}

// A lab is one run of the experiment.
//
// Owned by one goroutine.
type lab struct {
	out    io.Writer
	e      report.Expectations
	loads  []*rig.Loaded // all that were played
	ending []func()
	dir    string
}

// Run runs the parts that args name, all without a name. The error says what was not as it
// should be.
func Run(ctx context.Context, args []string, out io.Writer) (err error) {
	for _, arg := range args {
		if !slices.Contains(parts, arg) {
			return &service.ExitError{Status: 2, Err: fmt.Errorf("decision wants speed, pace or frozen, not %q", arg)}
		}
	}
	l := &lab{out: out}
	if l.dir, err = os.MkdirTemp("", "weir-decision-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(l.dir)) }()
	if err := os.MkdirAll(filepath.Join(l.dir, "limits", "config"), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(l.dir, "limits", "config", "bench.yaml"), []byte(limits), 0o600); err != nil {
		return err
	}
	for i, part := range []func(context.Context) error{l.speed, l.pace, l.frozen} {
		if len(args) > 0 && !slices.Contains(args, parts[i]) {
			continue
		}
		err := part(ctx)
		for _, end := range slices.Backward(l.ending) {
			end()
		}
		l.ending = nil
		if err != nil {
			return fmt.Errorf("%s: %w", parts[i], err)
		}
	}
	fmt.Fprintf(out, "\n%s", l.e.Table())
	return l.e.Conclude(out, "decisions cost a fraction of what they cost envoyproxy/ratelimit, and none waits for long.", rig.Inconclusive(l.loads...))
}

// limits has one limit, which nothing reaches.
const limits = `domain: bench
descriptors:
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 4000000000}}
`

// body is a request with the name of a user.
const body = `{"domain":"bench","descriptors":[{"entries":[{"key":"user","value":"%s"}]}]}`

// redis starts a Redis.
func (l *lab) redis(ctx context.Context) (*rig.Redis, error) {
	r, err := rig.StartRedis(ctx)
	if err == nil {
		l.ending = append(l.ending, r.End)
	}
	return r, err
}

// weir starts a proxy that decides on one loop. own is the address of its own endpoints,
// url that of /json.
func (l *lab) weir(ctx context.Context, env ...string) (p *rig.Process, own, url string, err error) {
	addr, err := freeport.Addr()
	if err != nil {
		return nil, "", "", err
	}
	_, port, _ := strings.Cut(addr, ":")
	p, own, err = rig.StartProxy(ctx, append([]string{"TARGET_URL=none", "DECISION_PORT=" + port, "RATELIMIT_CONFIG=" + filepath.Join(l.dir, "limits", "config"), "EVENT_LOOPS=1", "RATE_LIMIT_HEADERS=off"}, env...))
	if err != nil {
		return nil, "", "", err
	}
	l.ending = append(l.ending, p.Kill)
	return p, own, "http://" + addr + "/json", p.AwaitPort(ctx, addr)
}

// peer builds and starts envoyproxy/ratelimit.
func (l *lab) peer(ctx context.Context, redis string) (p *rig.Process, url string, err error) {
	const source, path = "bench/decision/ratelimit", "github.com/envoyproxy/ratelimit/src/service_cmd"
	program := filepath.Join(l.dir, "ratelimit")
	if out, err := exec.CommandContext(ctx, "go", "build", "-C", source, "-o", program, path).CombinedOutput(); err != nil {
		return nil, "", fmt.Errorf("envoyproxy/ratelimit cannot be built in the repository's folder: %w: %.300s", err, out)
	}
	var ports [3]string
	for i := range ports {
		addr, err := freeport.Addr()
		if err != nil {
			return nil, "", err
		}
		_, ports[i], _ = strings.Cut(addr, ":")
	}
	env := []string{"HOST=127.0.0.1", "GRPC_HOST=127.0.0.1", "DEBUG_HOST=127.0.0.1", "PORT=" + ports[0], "GRPC_PORT=" + ports[1], "DEBUG_PORT=" + ports[2],
		"USE_STATSD=false", "DISABLE_STATS=true", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + redis, "RUNTIME_ROOT=" + l.dir, "RUNTIME_SUBDIRECTORY=limits", "RUNTIME_WATCH_ROOT=false", "LOG_LEVEL=ERROR"}
	if p, err = rig.Start("ratelimit", env, program); err != nil {
		return nil, "", err
	}
	l.ending = append(l.ending, p.Kill)
	return p, "http://127.0.0.1:" + ports[0] + "/json", p.AwaitPort(ctx, "127.0.0.1:"+ports[0])
}

func ms(d time.Duration) float64 { return 1e3 * d.Seconds() }
