package rig

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"weir/internal/test/freeport"
)

// A Topology declares the programs of an experiment: a target, and proxies in front of it.
type Topology struct {
	Target, Proxy []string  // settings of the form NAME=value
	Proxies       int       // number; 0 means 1
	Store         StoreKind // where the proxies keep their limits
}

// A Rig holds the running programs of a Topology.
//
// Owned by one goroutine.
type Rig struct {
	Target     *Process
	TargetAddr string
	Store      Store // nil for MemoryStore
	Proxies    []*Process
	ProxyAddrs []string

	lab       *Lab
	targetEnv []string
}

// Rig starts the programs of a topology and waits until they answer. They end with the current
// part.
func (l *Lab) Rig(t Topology) *Rig {
	r := &Rig{TargetAddr: Must(freeport.Addr()), lab: l, targetEnv: t.Target}
	r.StartTarget()
	env := append([]string{"TARGET_URL=http://" + r.TargetAddr}, t.Proxy...)
	var setting string
	if r.Store, setting = t.Store.open(l); setting != "" {
		env = append(env, setting)
	}
	for range max(1, t.Proxies) {
		p, addr := l.Start("proxy", env...)
		r.Proxies, r.ProxyAddrs = append(r.Proxies, p), append(r.ProxyAddrs, addr)
	}
	return r
}

// StartTarget starts the target, or restarts it after it was killed.
func (r *Rig) StartTarget() { r.Target = r.lab.StartAt("target", r.TargetAddr, r.targetEnv...) }

// A Proxy is a proxy with its own endpoints on a separate port.
type Proxy struct {
	*Process
	Addr, Admin string
}

// StartApart starts such a proxy, which is killed with the current part, and waits until it
// answers. files limits its descriptors; 0 means our own limit.
func (l *Lab) StartApart(files int, env ...string) *Proxy {
	p := &Proxy{Addr: Must(freeport.Addr()), Admin: Must(freeport.Addr())}
	_, port, _ := strings.Cut(p.Admin, ":")
	p.Process = Launch("proxy", p.Addr, files, append([]string{"ADMIN_PORT=" + port}, env...))
	l.Cleanup(p.Kill)
	Check(p.AwaitPort(l.Ctx, p.Addr))
	return p
}

// Advisor starts an advisor of a target with a known capacity and a bound of its p95. It recommends
// a tenth to five times the limit; all rates are per second. follow are the settings of proxies
// that ask it. It ends with the current part.
func (l *Lab) Advisor(capacity, limit int, slo time.Duration) (p *Process, addr string, follow []string) {
	bounds := []string{fmt.Sprintf("LIMIT_MIN_RPS=%d", limit/10), fmt.Sprintf("LIMIT_MAX_RPS=%d", 5*limit)}
	p, addr = l.Start("advisor", append(bounds, fmt.Sprintf("CAPACITY_RPS=%d", capacity), "SLO_P95="+slo.String(),
		"STATE_FILE="+filepath.Join(l.Dir, "state"))...)
	return p, addr, append(bounds, "ADAPTIVE_MODE=true", "ADVISOR_URL=http://"+addr)
}

// A DecisionServer is a proxy that decides for others, the master of sidecars. It forwards nothing,
// unless Env names a target.
type DecisionServer struct {
	*Process
	Addr string // of the decision port
	Own  string // of its own endpoints
	Env  []string

	lab *Lab
}

// DecisionServer starts one with settings of the form NAME=value, and waits until it answers. It
// ends with the current part.
func (l *Lab) DecisionServer(env ...string) *DecisionServer {
	d := &DecisionServer{Addr: Must(freeport.Addr()), Own: Must(freeport.Addr()), Env: env, lab: l}
	d.Restart()
	return d
}

// Restart starts it again after Kill, at the same address and with Env, whose settings
// come last and so take precedence.
func (d *DecisionServer) Restart() {
	_, port, _ := strings.Cut(d.Addr, ":")
	d.Process = d.lab.StartAt("proxy", d.Own, append([]string{"TARGET_URL=none", "DECISION_PORT=" + port}, d.Env...)...)
	Check(d.AwaitPort(d.lab.Ctx, d.Addr))
}

// Launch starts one of our programs at addr and does not wait for it. files limits its
// descriptors; 0 means our own limit.
func Launch(name, addr string, files int, env []string) *Process {
	host, port, _ := strings.Cut(addr, ":")
	command := []string{Must(Binary(name))}
	if files > 0 {
		command = append([]string{"sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$0"`, files)}, command...)
	}
	return Must(Start(name, append([]string{"BIND=" + host, "PORT=" + port}, env...), command...))
}

// URL returns the URL of the target's service through a proxy.
func (r *Rig) URL(proxy int) string { return "http://" + r.ProxyAddrs[proxy] + "/api/test" }

// Get asks a program and returns its answer. A status other than 200 is an error that contains the
// answer.
func Get(ctx context.Context, url string) ([]byte, error) {
	return exchange(http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody))
}

// Post sends JSON to a program and returns its answer, with errors as of Get.
func Post(ctx context.Context, url, body string) ([]byte, error) {
	return exchange(http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body)))
}

func exchange(req *http.Request, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	if req.Body != http.NoBody {
		req.Header.Set("Content-Type", "application/json")
	}
	status, answer, err := Do(&http.Client{Timeout: 5 * time.Second}, req)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%s %s: status %d: %s", req.Method, req.URL, status, bytes.TrimSpace(answer))
	}
	return answer, err
}

// Do sends a request and returns the status and the body of its answer.
func Do(c *http.Client, req *http.Request) (status int, answer []byte, err error) {
	resp, err := c.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}
