// Package decision measures Envoy's rate limit service by gRPC and over JSON, compared with
// envoyproxy/ratelimit: what decisions cost, how long they take, and what happens when
// Redis stops.
package decision

import (
	"os"
	"path/filepath"
	"strings"

	"weir/bench/lab/rig"
	"weir/internal/data/protowire"
	"weir/internal/test/freeport"
)

// A lab is one run of the experiment.
//
// Owned by one goroutine.
type lab struct{ *rig.Lab }

// Run runs the parts named by args, or all.
func Run(of *rig.Lab, args []string) {
	l := &lab{of}
	l.RunExperiment(rig.Experiment{Name: "decision",
		Good: "decisions cost a fraction of those of envoyproxy/ratelimit, and none waits for long.",
		Parts: []rig.Part{{Name: "speed", Run: l.speed}, {Name: "grpc", Run: l.grpc}, {Name: "pace", Run: l.pace},
			{Name: "frozen", Run: l.frozen}}}, args)
}

// limitsDir writes the file with the limit and returns its folder.
func (l *lab) limitsDir() string {
	dir := filepath.Join(l.Dir, "limits", "config")
	rig.Check(os.MkdirAll(dir, 0o700))
	rig.Check(os.WriteFile(filepath.Join(dir, "bench.yaml"), []byte(limits), 0o600))
	return dir
}

// limits has one limit, which is never reached.
const limits = `domain: bench
descriptors:
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 4000000000}}
`

// body is a format of a request for a user.
const body = `{"domain":"bench","descriptors":[{"entries":[{"key":"user","value":"%s"}]}]}`

// weir starts a proxy with one event loop that only decides.
func (l *lab) weir(env ...string) *rig.DecisionServer {
	return l.DecisionServer(append([]string{"RATELIMIT_CONFIG=" + l.limitsDir(), "EVENT_LOOPS=1",
		"RATE_LIMIT_HEADERS=off"}, env...)...)
}

// withRedis starts such a proxy and its Redis.
func (l *lab) withRedis() (*rig.Redis, *rig.DecisionServer) {
	redis := l.Redis()
	return redis, l.weir("REDIS_HOST=" + redis.Addr)
}

// compared returns a proxy that only decides as a ComparedProgram.
func compared(name string, m *rig.DecisionServer, redis *rig.Redis) rig.ComparedProgram {
	return rig.ComparedProgram{Name: name, Process: m.Process, Wrk: rig.Wrk{URL: url(m)}, Own: m.Own, Redis: redis}
}

// message is the request for a user in protobuf's binary form.
func message(user string) []byte {
	entry := protowire.AppendText(protowire.AppendText(nil, 1, "user"), 2, user)
	descriptor := protowire.AppendBytes(nil, 1, entry)
	return protowire.AppendBytes(protowire.AppendText(nil, 1, "bench"), 2, descriptor)
}

// callURL returns the URL of the method at an address.
func callURL(addr string) string {
	return "http://" + addr + "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
}

func url(m *rig.DecisionServer) string { return "http://" + m.Addr + "/json" }

// peer builds and starts envoyproxy/ratelimit, and returns the URLs of /json and of the method.
func (l *lab) peer(redis string) (p *rig.Process, url, call string) {
	l.limitsDir()
	program := filepath.Join(l.Dir, "ratelimit")
	rig.Check(rig.BuildPeer(l.Ctx, program, "bench/limits/decision/ratelimit",
		"github.com/envoyproxy/ratelimit/src/service_cmd"))
	var ports [3]string
	for i := range ports {
		_, ports[i], _ = strings.Cut(rig.Must(freeport.Addr()), ":")
	}
	addr := "127.0.0.1:" + ports[0]
	p = l.StartForeign("ratelimit", addr, "env", "HOST=127.0.0.1", "GRPC_HOST=127.0.0.1", "DEBUG_HOST=127.0.0.1",
		"PORT="+ports[0], "GRPC_PORT="+ports[1], "DEBUG_PORT="+ports[2],
		"USE_STATSD=false", "DISABLE_STATS=true", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+redis, "RUNTIME_ROOT="+l.Dir,
		"RUNTIME_SUBDIRECTORY=limits", "RUNTIME_WATCH_ROOT=false", "LOG_LEVEL=ERROR", program)
	l.Cleanup(p.Kill)
	return p, "http://" + addr + "/json", callURL("127.0.0.1:" + ports[1])
}
