// Package remote is a store in another proxy, the master, which makes this proxy a sidecar. The
// sidecar has the rules and keys. The master makes the decisions, on its store's clock, and has
// the documents. A batch is one call of POST /v1/decide, or several if it is large, over
// kept-alive HTTP/1.1 connections (see package asks), made on the loop that asks. What a master
// may have received is never sent again, to this or another master. All other calls are made by
// net/http.
//
// Documents are read only: they are changed at the master.
//
// A master that refuses connections is skipped at once. One that does not accept a connection is
// skipped after its share of the time until the deadline, which is divided among the masters that
// are left. After a call without an answer in time the next master is asked. The prober asks all
// masters concurrently and takes the first in REMOTE_URL that answers. If a master's own store is
// unavailable, its failure mode decides: with open (it admits everything) or closed (it refuses
// everything) the master counts as unavailable too, with local it decides alone, and its
// decisions count. A call is repeated only if the master's FIN arrived without an acknowledgement
// of the request, because then the master has not read it.
package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"weir/internal/program/certs"
	"weir/internal/program/metric"
	"weir/proxy/store"
	"weir/proxy/store/asks"
	"weir/proxy/store/lane"
)

const (
	// answerBytesMax bounds the size of an answer.
	answerBytesMax = 64 << 20
	// idleTimeout is how long an idle connection is kept, which is less than the master keeps it.
	idleTimeout = 60 * time.Second
	// spareBytesMax bounds the buffers that are kept for reuse.
	spareBytesMax = 64 << 10
	// agent is the User-Agent of all calls.
	agent = "weir-sidecar"
)

// New returns a store that asks the masters of cfg. If none answers it starts in the failure mode
// and keeps trying. The error is about the configuration; see Config.Validate.
func New(cfg Config) (*Store, error) {
	b, err := newBackend(cfg)
	if err != nil {
		return nil, err
	}
	return &Store{lane.New(b, b.cfg.Config)}, nil
}

// A Store is a [lane.Store] whose documents are read only.
//
// Safe for concurrent use: it is not changed after New.
type Store struct{ *lane.Store }

// CompareAndSet returns [store.ErrReadOnly]: documents are changed at the master.
func (s *Store) CompareAndSet(string, int64, []byte) (store.Document, bool, error) {
	return store.Document{}, false, store.ErrReadOnly
}

// newBackend returns a backend that connects when it is used. The error is about the
// configuration.
func newBackend(cfg Config) (*backend, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("use a master: %w", err)
	}
	cfg = cfg.withDefaults()
	secure, err := certs.Client(cfg.CAFile, "")
	if err != nil {
		return nil, fmt.Errorf("use a master: %w", err)
	}
	transport := &http.Transport{TLSClientConfig: secure, DisableCompression: true, IdleConnTimeout: idleTimeout,
		TLSHandshakeTimeout: cfg.Timeout, // a cancelled call does not cancel its handshake
		DialContext:         (&net.Dialer{Timeout: cfg.Timeout}).DialContext}
	b := &backend{cfg: cfg, transport: transport, exchanges: metric.NewHistogram(metric.LatencyBuckets())}
	b.client = &http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for _, u := range cfg.URLs {
		b.masters = append(b.masters, newMaster(u, cfg.Token, secure))
	}
	return b, nil
}

// A backend asks masters.
//
// Safe for concurrent use: client is, current and the counters are atomic.
type backend struct {
	cfg       Config
	masters   []*master
	transport *http.Transport
	client    *http.Client  // for everything but the questions of loop clients
	current   atomic.Int32  // index of the master that is asked first
	failures  atomic.Uint64 // questions after which idle connections are not used again

	commands  metric.Counter
	errors    metric.Counter
	exchanges *metric.Histogram
}

// Close closes the idle connections. Calls in progress end with their contexts.
func (b *backend) Close() { b.transport.CloseIdleConnections() }

func (b *backend) Register(set *metric.Set) {
	set.Histogram("ratelimiter_remote_request_duration_seconds", "how long a master took to answer a batch", b.exchanges)
	set.Counter("ratelimiter_remote_errors_total", "calls of a master without a usable answer", b.errors.Load)
	set.Gauge("ratelimiter_remote_master", "the master that is asked, by its place in REMOTE_URL from 0",
		func() float64 { return float64(b.current.Load()) })
	set.Counter("ratelimiter_store_commands_total", "commands sent to the store", b.commands.Load)
}

// do makes one call to the current master: GET, or POST with a body in JSON. A status other than 200
// and 204 is an error.
func (b *backend) do(ctx context.Context, path string, body []byte) (*http.Response, []byte, error) {
	base := b.masters[b.current.Load()].url
	res, answer, err := b.call(ctx, base+path, "application/json", body)
	if err == nil && res.StatusCode != http.StatusOK && res.StatusCode != http.StatusNoContent {
		err = refused(base, path, res.StatusCode, answer)
	}
	if err != nil {
		b.errors.Inc()
		return nil, nil, fmt.Errorf("ask master: %w", err)
	}
	return res, answer, nil
}

// call makes one call: GET, or POST with a body.
func (b *backend) call(ctx context.Context, url, contentType string, body []byte) (*http.Response, []byte, error) {
	method, content := http.MethodGet, io.Reader(nil)
	if body != nil {
		method, content = http.MethodPost, bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, content)
	if err != nil {
		return nil, nil, err
	}
	req.GetBody = nil // so that net/http never sends it twice
	req.Header.Set("User-Agent", agent)
	if body != nil {
		req.Header.Set("Content-Type", contentType)
	}
	if b.cfg.Token != "" {
		req.Header.Set("Authorization", "Bearer "+b.cfg.Token)
	}
	b.commands.Inc()
	res, err := b.client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	answer, err := readAll(res)
	return res, answer, err
}

// readAll reads the body of an answer, up to a bound.
func readAll(res *http.Response) ([]byte, error) {
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, answerBytesMax+1))
	if err == nil && len(body) > answerBytesMax {
		err = errLarge
	}
	return body, err
}

func (b *backend) Forget(ctx context.Context, rule string, key []byte) (bool, error) {
	return b.edit(ctx, rule, key, 0)
}

func (b *backend) Add(ctx context.Context, rule string, key []byte, n int64) (bool, error) {
	return b.edit(ctx, rule, key, n)
}

func (b *backend) edit(ctx context.Context, rule string, key []byte, n int64) (bool, error) {
	question, err := json.Marshal(struct {
		Rule string `json:"rule"`
		Key  []byte `json:"key"`
		Add  int64  `json:"add"`
	}{rule, key, n})
	if err != nil {
		return false, err
	}
	var answer struct {
		Changed bool `json:"changed"`
	}
	_, body, err := b.do(ctx, "/v1/edit", question)
	if err == nil {
		err = json.Unmarshal(body, &answer)
	}
	return answer.Changed, err
}

// Lease returns [store.ErrReadOnly]: a sidecar applies no recommendations.
func (b *backend) Lease(context.Context, string, string, time.Duration) (bool, error) {
	return false, store.ErrReadOnly
}

// CompareAndSet returns [store.ErrReadOnly]: documents are changed at the master.
func (b *backend) CompareAndSet(context.Context, string, int64, []byte) (int64, error) {
	return 0, store.ErrReadOnly
}

func (b *backend) marks(ctx context.Context) (m asks.Fingerprints, err error) {
	_, body, err := b.do(ctx, "/v1/marks", nil)
	if err == nil {
		if err = json.Unmarshal(body, &m); err != nil || m.Edits == "" {
			err = wrongProgram(errors.New("read marks: the answer is not that of a decision port"))
		}
	}
	return m, err
}

func (b *backend) Edits(ctx context.Context) (string, error) {
	m, err := b.marks(ctx)
	return m.Edits, err
}

func (b *backend) Marks(ctx context.Context, names []string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, store.DocumentTimeout(0))
	defer cancel()
	m, err := b.marks(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = m.Documents[name]
	}
	return all, nil
}

func (b *backend) Read(ctx context.Context, name string) (store.Document, error) {
	ctx, cancel := context.WithTimeout(ctx, store.DocumentTimeout(0))
	defer cancel()
	res, body, err := b.do(ctx, "/v1/documents/"+name, nil)
	if s, ok := errors.AsType[*statusError](err); ok && s.status == http.StatusNotFound {
		return store.Document{}, nil // an older master, which does not have this one
	}
	if err != nil || res.StatusCode == http.StatusNoContent {
		return store.Document{}, err
	}
	version, err := strconv.ParseInt(strings.Trim(res.Header.Get("ETag"), `"`), 10, 64)
	if err != nil {
		return store.Document{}, wrongProgram(fmt.Errorf("read document %s: the version is missing", name))
	}
	return store.Document{Version: version, Body: body}, nil
}
