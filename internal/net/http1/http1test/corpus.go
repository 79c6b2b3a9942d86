package http1test

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/internal/net/http1"
)

//go:embed testdata/*.json
var embedded embed.FS

// responsesFile is the file of a corpus that contains responses.
const responsesFile = "upstream-responses.json"

// A corpus is a folder of JSON files with cases.
type corpus struct {
	name  string
	files fs.FS
}

// corpora returns the corpora: "embedded" and, if it exists beside the repository, "shared".
func corpora() ([]corpus, error) {
	own, err := fs.Sub(embedded, "testdata")
	if err != nil {
		return nil, fmt.Errorf("open the embedded corpus: %w", err)
	}
	found := []corpus{{"embedded", own}}
	root, err := repositoryRoot()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(root, "..", "shared", "http-corpus")
	if _, err := os.Stat(filepath.Join(dir, responsesFile)); err == nil {
		found = append(found, corpus{"shared", os.DirFS(dir)})
	}
	return found, nil
}

// repositoryRoot returns the nearest folder with a go.mod, from the working directory upwards.
func repositoryRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", fmt.Errorf("find the repository: no go.mod in a folder above the working directory")
		}
		dir = up
	}
}

// Octets is the input of a case: one base64 string, or pieces with the number of their
// repetitions.
type Octets struct {
	Raw      *string           `json:"raw_base64"`
	Segments []json.RawMessage `json:"segments"`
}

// Bytes returns the input.
func (o *Octets) Bytes() ([]byte, error) {
	if o.Raw != nil {
		return base64.StdEncoding.DecodeString(*o.Raw)
	}
	var all []byte
	for _, s := range o.Segments {
		var text string
		var times int
		if err := json.Unmarshal(s, &[]any{&text, &times}); err != nil {
			return nil, err
		}
		piece, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, err
		}
		all = append(all, slices.Repeat(piece, times)...)
	}
	return all, nil
}

// A RequestCase is input from a client with the expected result.
type RequestCase struct {
	Octets
	ID           string        `json:"id"`
	Expect       string        `json:"expect"`
	Recommended  string        `json:"recommended"`
	StatusOK     []int         `json:"status_ok"`
	Rule         string        `json:"rule"`
	Close        bool          `json:"close"`
	Requests     []RequestSeen `json:"requests"`
	MaxForwarded int           `json:"max_forwarded"`
}

// A RequestSeen is a complete request in the input of a case.
type RequestSeen struct {
	Method     string  `json:"method"`
	Target     string  `json:"target"`
	Framing    string  `json:"framing"`
	BodyLen    int     `json:"body_len"`
	BodySHA256 *string `json:"body_sha256"`
}

// A ResponseCase is input from a target with the expected result.
type ResponseCase struct {
	Octets
	ID             string `json:"id"`
	Expect         string `json:"expect"`
	Rule           string `json:"rule"`
	RequestMethod  string `json:"request_method"`
	RequestUpgrade string `json:"request_upgrade"`
	UpstreamCloses bool   `json:"upstream_closes"`
	Interim        []int  `json:"interim"`
	Reuse          bool   `json:"reuse_upstream"`
	ClientStatus   int    `json:"client_status"`
	BodyLen        int    `json:"body_len"`
	BodySHA256     string `json:"body_sha256"`
}

// Requests returns the request cases of all corpora.
func Requests(t testing.TB) []RequestCase {
	t.Helper()
	return all[RequestCase](t, func(file string) bool { return file != responsesFile })
}

// Responses returns the response cases of all corpora.
func Responses(t testing.TB) []ResponseCase {
	t.Helper()
	return all[ResponseCase](t, func(file string) bool { return file == responsesFile })
}

func all[T any](t testing.TB, wanted func(string) bool) (list []T) {
	t.Helper()
	found, err := corpora()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range found {
		files, err := fs.Glob(c.files, "*.json")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range slices.DeleteFunc(files, func(file string) bool { return !wanted(file) }) {
			text, err := fs.ReadFile(c.files, file)
			var some []T
			if err = errors.Join(err, json.Unmarshal(text, &some)); err != nil {
				t.Fatalf("read corpus %s, %s: %v", c.name, file, err)
			}
			list = append(list, some...)
		}
	}
	return list
}

// bodySum returns the digest of a body in the corpus: the first 16 hexadecimal digits of its
// SHA-256.
func bodySum(body string) string {
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:8])
}

// Judge compares a record with the verdict of the case. The error describes a difference.
func (c *RequestCase) Judge(got Record) error {
	complete := 0
	for i := range got.Messages {
		if got.Messages[i].Complete {
			complete++
		}
	}
	if complete > c.MaxForwarded {
		return fmt.Errorf("%d complete requests, at most %d may be forwarded", complete, c.MaxForwarded)
	}
	expect := c.Expect
	if expect == "either" {
		expect = c.Recommended
	}
	switch expect {
	case "accept":
		return c.judgeAccepted(got, complete)
	case "reject", "reject_ambiguous":
		return c.judgeRefused(got)
	case "incomplete":
		return c.judgeIncomplete(got)
	case "accept_then_reject":
		if err := c.judgeRequests(got); err != nil {
			return err
		}
		return c.judgeRefused(got)
	case "accept_then_incomplete":
		if err := c.judgeRequests(got); err != nil {
			return err
		}
		return c.judgeIncomplete(got)
	}
	return fmt.Errorf("unknown verdict %q", expect)
}

func (c *RequestCase) judgeAccepted(got Record, complete int) error {
	switch {
	case got.Err != nil:
		return fmt.Errorf("refused: %w", got.Err)
	case complete != len(got.Messages):
		return fmt.Errorf("the last request is not complete")
	case got.Stopped != c.Close:
		return fmt.Errorf("the connection closes: %t, want %t", got.Stopped, c.Close)
	case !got.Stopped && !got.Idle:
		return fmt.Errorf("another request has begun")
	}
	return c.judgeRequests(got)
}

func (c *RequestCase) judgeRefused(got Record) error {
	if got.Err == nil {
		return fmt.Errorf("not refused")
	}
	if s := http1.StatusOf(got.Err); len(c.StatusOK) > 0 && !slices.Contains(c.StatusOK, s) {
		return fmt.Errorf("refused with %d (%w), want one of %v", s, got.Err, c.StatusOK)
	}
	return nil
}

func (c *RequestCase) judgeIncomplete(got Record) error {
	if got.Err != nil {
		return fmt.Errorf("refused: %w", got.Err)
	}
	if got.Idle != (c.Rule == "INCOMPLETE:idle") {
		return fmt.Errorf("idle: %t", got.Idle)
	}
	return nil
}

// judgeRequests compares the complete requests.
func (c *RequestCase) judgeRequests(got Record) error {
	var complete []Message
	for _, m := range got.Messages {
		if m.Complete {
			complete = append(complete, m)
		}
	}
	if len(complete) != len(c.Requests) {
		return fmt.Errorf("%d complete requests, want %d", len(complete), len(c.Requests))
	}
	for i, want := range c.Requests {
		if err := want.judge(&complete[i]); err != nil {
			return fmt.Errorf("request %d: %w", i+1, err)
		}
	}
	return nil
}

func (want *RequestSeen) judge(m *Message) error {
	framing := map[http1.Framing]string{http1.BodyNone: "none", http1.BodyLength: "cl", http1.BodyChunked: "chunked"}
	target, long := strings.CutSuffix(want.Target, "...")
	switch {
	case string(m.Head.MethodText) != want.Method:
		return fmt.Errorf("method %q, want %q", m.Head.MethodText, want.Method)
	case long && !strings.HasPrefix(string(m.Head.Target), target), !long && string(m.Head.Target) != want.Target:
		return fmt.Errorf("target %q, want %q", m.Head.Target, want.Target)
	case framing[m.Head.Framing] != want.Framing:
		return fmt.Errorf("framing %q, want %q", framing[m.Head.Framing], want.Framing)
	case len(m.Body) != want.BodyLen:
		return fmt.Errorf("body of %d bytes, want %d", len(m.Body), want.BodyLen)
	case want.BodySHA256 != nil && bodySum(m.Body) != *want.BodySHA256:
		return fmt.Errorf("body %s, want %s", bodySum(m.Body), *want.BodySHA256)
	}
	return nil
}

// protocolsAsked are the Upgrade fields of the requests of shared cases that describe them only
// in words.
var protocolsAsked = map[string]string{
	"llhttp:connection-010": "h2c",
	"rfc:101-wrong-proto":   "websocket",
	"rfc:101-ws":            "websocket",
}

// Conversation returns how the case is read: up to the end of the first final response. A
// switch to a protocol that was not requested is refused.
func (c *ResponseCase) Conversation() *Conversation {
	upgrade := c.RequestUpgrade
	if upgrade == "" {
		upgrade = protocolsAsked[c.ID]
	}
	var asked []byte
	if upgrade != "" {
		asked = []byte(upgrade)
	}
	return &Conversation{
		Response: true,
		Method:   http1.MethodOf([]byte(c.RequestMethod)),
		Single:   true,
		Closed:   c.UpstreamCloses,
		Refuse: func(h *http1.Head) error {
			if h.Status != 101 {
				return nil
			}
			return h.CheckSwitch(asked)
		},
	}
}

// Judge compares a record with the verdict of the case. The error describes a difference.
func (c *ResponseCase) Judge(got Record) error {
	var final *Message
	interim := []int{}
	for i := range got.Messages {
		m := &got.Messages[i]
		if m.Head.Status < 200 && m.Head.Status != 101 {
			interim = append(interim, m.Head.Status)
			continue
		}
		final = m
	}
	if c.Expect != "either" && !slices.Equal(interim, c.Interim) {
		return fmt.Errorf("interim responses %v, want %v", interim, c.Interim)
	}
	reuse := got.Err == nil && final != nil && final.Complete && final.Head.KeepAlive && got.Rest == 0
	if reuse != c.Reuse && c.Expect != "discard" {
		return fmt.Errorf("connection may be used again: %t, want %t", reuse, c.Reuse)
	}
	if got.Err != nil && http1.StatusOf(got.Err) != 502 {
		return fmt.Errorf("error with status %d: %w", http1.StatusOf(got.Err), got.Err)
	}
	switch c.Expect {
	case "forward":
		return c.judgeForwarded(final, got)
	case "bad_gateway":
		// Nothing may have been passed on, or nothing has come and all is over.
		if final != nil || got.Err == nil && !got.Idle {
			return fmt.Errorf("a final head was read")
		}
	case "abort":
		if final == nil || got.Err == nil {
			return fmt.Errorf("want a final head and then an error")
		}
	case "tunnel":
		if got.Err != nil || !got.Upgraded {
			return fmt.Errorf("no tunnel")
		}
	case "discard":
		// Idle shows the owner of the connection that unrequested bytes have arrived.
		if final == nil || reuse {
			return fmt.Errorf("unasked bytes would be used, or the connection again")
		}
	case "either":
		if got.Err == nil && final == nil {
			return fmt.Errorf("neither refused nor read")
		}
	default:
		return fmt.Errorf("unknown verdict %q", c.Expect)
	}
	return nil
}

func (c *ResponseCase) judgeForwarded(final *Message, got Record) error {
	switch {
	case got.Err != nil:
		return fmt.Errorf("refused: %w", got.Err)
	case final == nil || !final.Complete:
		return fmt.Errorf("not complete")
	case final.Head.Status != c.ClientStatus:
		return fmt.Errorf("status %d, want %d", final.Head.Status, c.ClientStatus)
	case len(final.Body) != c.BodyLen:
		return fmt.Errorf("body of %d bytes, want %d", len(final.Body), c.BodyLen)
	case c.BodySHA256 != "" && bodySum(final.Body) != c.BodySHA256:
		return fmt.Errorf("body %s, want %s", bodySum(final.Body), c.BodySHA256)
	}
	return nil
}
