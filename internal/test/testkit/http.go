package testkit

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// A Client sends requests to one address with net/http.
type Client struct {
	*http.Client
	t    testing.TB
	base string
}

// NewClient returns a client of base ("http://host:port") with a timeout of Timeout. It does
// not accept compression. Its idle connections are closed when the test ends.
func NewClient(t testing.TB, base string) *Client {
	c := &Client{t: t, base: base,
		Client: &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64},
			Timeout: Timeout}}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// Do sends a request and returns the status, fields and body of the answer. fields are
// alternating names and values.
func (c *Client) Do(method, path, body string, fields ...string) (int, http.Header, string) {
	c.t.Helper()
	req, err := http.NewRequest(method, c.base+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		req.Header.Set(fields[i], fields[i+1])
	}
	res, err := c.Client.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(text)
}

// Samples parses an exposition of metrics into values by name and labels. Duplicate samples are
// an error.
func Samples(t testing.TB, text string) map[string]float64 {
	t.Helper()
	samples := make(map[string]float64)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			t.Fatalf("metrics line %q: %v", line, err)
		}
		if _, twice := samples[line[:at]]; twice {
			t.Errorf("the sample %s is duplicated", line[:at])
		}
		samples[line[:at]] = value
	}
	return samples
}
