package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"weir/internal/freeport"
)

// A Topology declares the programs of an experiment: a target, and proxies in front of it.
type Topology struct {
	Target, Proxy []string // settings of the form NAME=value
	Proxies       int      // number; 0 means 1
	Store         Kind     // where the proxies keep their limits
}

// A Kind is a kind of store.
type Kind string

// The kinds of stores.
const (
	OwnStore      Kind = "" // in the process of each proxy
	RedisStore    Kind = "Redis"
	PostgresStore Kind = "PostgreSQL"
)

// A Store is a server in which proxies share limits.
type Store interface {
	Kill()
	Restart(ctx context.Context) error
	Pid() int
	End() // ends the server and removes its files
}

// start starts a store and returns the setting by which proxies find it; nil and "" for
// OwnStore.
func (k Kind) start(ctx context.Context) (s Store, setting string, err error) {
	switch k {
	case RedisStore:
		r, err := StartRedis(ctx)
		if err != nil {
			return nil, "", err
		}
		return r, "REDIS_HOST=" + r.Addr, nil
	case PostgresStore:
		p, err := StartPostgres(ctx)
		if err != nil {
			return nil, "", err
		}
		return p, "POSTGRES_URL=" + p.URL(), nil
	}
	return nil, "", nil
}

// open starts a store and returns the setting by which proxies find it; nil and "" for
// OwnStore.
func (k Kind) open(l *Lab) (s Store, setting string) {
	switch k {
	case RedisStore:
		r := Must(l.Redis(l.Ctx))
		return r, "REDIS_HOST=" + r.Addr
	case PostgresStore:
		p := Must(StartPostgres(l.Ctx))
		l.Keep(p.End)
		return p, "POSTGRES_URL=" + p.URL()
	}
	return nil, ""
}

// A Rig holds the running programs of a Topology.
//
// Owned by one goroutine.
type Rig struct {
	Target     *Process
	TargetAddr string
	Store      Store // nil for OwnStore
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

// Start starts the programs and waits until they answer. If it fails, it stops what it has
// started.
func (t Topology) Start(ctx context.Context) (*Rig, error) {
	r := &Rig{targetEnv: t.Target}
	if err := r.start(ctx, t); err != nil {
		_ = r.Stop()
		return nil, err
	}
	return r, nil
}

func (r *Rig) start(ctx context.Context, t Topology) (err error) {
	if r.TargetAddr, err = freeport.Addr(); err != nil {
		return err
	}
	if err = r.startTarget(ctx); err != nil {
		return err
	}
	env := append([]string{"TARGET_URL=http://" + r.TargetAddr}, t.Proxy...)
	var setting string
	if r.Store, setting, err = t.Store.start(ctx); err != nil {
		return err
	}
	if setting != "" {
		env = append(env, setting)
	}
	for range max(1, t.Proxies) {
		p, addr, err := StartProxy(ctx, env)
		if err != nil {
			return err
		}
		r.Proxies, r.ProxyAddrs = append(r.Proxies, p), append(r.ProxyAddrs, addr)
	}
	return nil
}

// startTarget starts the target.
func (r *Rig) startTarget(ctx context.Context) (err error) {
	r.Target, err = StartProgram(ctx, "target", r.TargetAddr, r.targetEnv)
	return err
}

// StartProxy starts a proxy at a free address and waits until it answers.
func StartProxy(ctx context.Context, env []string) (*Process, string, error) {
	return StartFree(ctx, "proxy", env)
}

// StartTargetAt starts a target at a free address and waits until it answers.
func StartTargetAt(ctx context.Context, env []string) (*Process, string, error) {
	return StartFree(ctx, "target", env)
}

// StartFree starts one of our programs at a free address and waits until it answers.
func StartFree(ctx context.Context, name string, env []string) (*Process, string, error) {
	addr, err := freeport.Addr()
	if err != nil {
		return nil, "", err
	}
	p, err := StartProgram(ctx, name, addr, env)
	return p, addr, err
}

// A Proxy is a proxy with its own endpoints on a separate port.
type Proxy struct {
	*Process
	Addr, Admin string
}

// StartApart starts such a proxy and waits until it answers. files limits its descriptors; 0
// means our own limit.
func StartApart(ctx context.Context, files int, env []string) (p *Proxy, err error) {
	p = new(Proxy)
	if p.Addr, err = freeport.Addr(); err != nil {
		return nil, err
	}
	if p.Admin, err = freeport.Addr(); err != nil {
		return nil, err
	}
	_, port, _ := strings.Cut(p.Admin, ":")
	p.Process, err = Launch("proxy", p.Addr, files, append([]string{"ADMIN_PORT=" + port}, env...))
	if err != nil {
		return nil, err
	}
	return p, p.await(ctx, p.Addr)
}

// StartApart starts such a proxy, which is killed with the current part, and waits until it
// answers. files limits its descriptors; 0 means our own limit.
func (l *Lab) StartApart(files int, env ...string) *Proxy {
	p := &Proxy{Addr: Must(freeport.Addr()), Admin: Must(freeport.Addr())}
	_, port, _ := strings.Cut(p.Admin, ":")
	p.Process = Must(Launch("proxy", p.Addr, files, append([]string{"ADMIN_PORT=" + port}, env...)))
	l.Keep(p.Kill)
	Check(p.AwaitPort(l.Ctx, p.Addr))
	return p
}

// StartProgram starts one of our programs at addr and waits until it answers.
func StartProgram(ctx context.Context, name, addr string, env []string) (*Process, error) {
	p, err := Launch(name, addr, 0, env)
	if err != nil {
		return nil, err
	}
	return p, p.await(ctx, addr)
}

// Launch starts one of our programs at addr and does not wait for it. files limits its
// descriptors; 0 means our own limit.
func Launch(name, addr string, files int, env []string) (*Process, error) {
	bin, err := Binary(name)
	if err != nil {
		return nil, err
	}
	host, port, _ := strings.Cut(addr, ":")
	command := []string{bin}
	if files > 0 {
		command = []string{"sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$0"`, files), bin}
	}
	return Start(name, append([]string{"BIND=" + host, "PORT=" + port}, env...), command...)
}

// Stop ends all programs and returns their errors.
func (r *Rig) Stop() (err error) {
	for _, p := range append(r.Proxies, r.Target) {
		if p != nil {
			err = errors.Join(err, p.Stop())
		}
	}
	if r.Store != nil {
		r.Store.End()
	}
	return err
}

// URL returns the URL of the target's service through a proxy.
func (r *Rig) URL(proxy int) string { return "http://" + r.ProxyAddrs[proxy] + "/api/test" }

// Get asks a program and returns its answer. A status other than 200 is an error that contains the
// answer.
func Get(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	return do(req)
}

// Post sends JSON to a program and returns its answer, with errors as of Get.
func Post(ctx context.Context, url, body string) ([]byte, error) {
	return PostAs(ctx, "", url, body)
}

// PostAs is Post with a bearer token.
func PostAs(ctx context.Context, token, url, body string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return do(req)
}

func do(req *http.Request) ([]byte, error) {
	resp, err := (&http.Client{Timeout: 5 * time.Second}).Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s: %s", req.Method, req.URL, resp.Status, bytes.TrimSpace(answer))
	}
	return answer, err
}
