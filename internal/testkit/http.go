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

// NewClient returns a client of base ("http://host:port") whose requests take Patience
// at most. It asks for no compression; its idle connections end with the test.
func NewClient(t testing.TB, base string) *Client {
	c := &Client{t: t, base: base, Client: &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}, Timeout: Patience}}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// Do sends a request and returns status, fields and body of its answer. The fields of
// the request are names and values in turn.
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

// Samples reads an exposition of metrics: values by name and labels. It fails where a
// sample is there twice.
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
			t.Errorf("the sample %s is there twice", line[:at])
		}
		samples[line[:at]] = value
	}
	return samples
}
