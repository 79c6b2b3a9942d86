package adaptive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/goccy/go-json"

	"weir/internal/data/strict"
)

const (
	answerMax  = 64 << 10 // bytes of an answer; beyond: an error
	headersMax = 16 << 10 // bytes of its head
)

// A client sends requests to the advisor, each over a new connection: at two requests a minute
// the cost is negligible, and no idle connection can fail.
//
// Immutable after New.
type client struct {
	url     string
	token   string // sent to the advisor; empty: none
	timeout time.Duration
	http    *http.Client
}

func newClient(base, token string, timeout time.Duration) *client {
	return &client{url: base + "/v1/limit-config", token: token, timeout: timeout, http: &http.Client{
		Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: headersMax},
		// A redirect must not change which advisor the proxy trusts.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// ask sends a snapshot and returns the recommendation. Any unexpected answer is an error.
func (c *client) ask(ctx context.Context, s *Snapshot) (*Recommendation, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	text, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("write the snapshot: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(strict.NormalizeJSON(text)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.shortened(ctx, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, answerMax+1))
	switch kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); {
	case err != nil:
		return nil, fmt.Errorf("read the answer: %w", c.shortened(ctx, err))
	case res.StatusCode == http.StatusForbidden:
		return nil, fmt.Errorf("set ADVISOR_TOKEN to the advisor's ADMIN_TOKEN: it answered 403 %s", clean(string(body)))
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("answered %d %s", res.StatusCode, clean(string(body)))
	case len(body) > answerMax:
		return nil, fmt.Errorf("the answer is longer than %d bytes", answerMax)
	case kind != "application/json":
		return nil, fmt.Errorf("the answer's Content-Type must be application/json, is %q",
			clean(res.Header.Get("Content-Type")))
	}
	r, err := readAnswer(body)
	if err != nil {
		return nil, fmt.Errorf("understand the answer: %w", err)
	}
	return r, nil
}

// shortened describes a passed deadline briefly.
func (c *client) shortened(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %v", c.timeout)
	}
	return err
}
