package port

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"weir/internal/test/testkit"
	"weir/proxy/store/simredis"
)

// At the level debug each request is logged with its descriptors and their codes, in a line of bounded length.
func TestDebugLog(t *testing.T) {
	var text bytes.Buffer
	log := slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}))
	memory := testkit.Must(simredis.NewStore(simredis.Config{}))(t)
	t.Cleanup(memory.Close)
	_, limits := shopLimits(t, new(testkit.LogRecords))
	p := startWith(t, Config{Limits: limits, Store: memory, Log: log})
	c := testkit.Dial(t, p.Addr().String())
	const two = `{"domain":"shop","hitsAddend":2,"descriptors":[{"entries":[{"key":"two","value":"x"}]},` +
		`{"entries":[{"key":"user","value":"a b"},{"key":"k","value":"v"}]}]}`
	for _, body := range []string{two, two, `{"domain":"shop"}`, entry("user", strings.Repeat("x", 2*debugBytesMax), "")} {
		c.Send(request("POST", "/json", "secret", body))
		c.Answer("POST")
	}
	p.Drain(context.Background())
	lines := text.String()
	for _, part := range []string{
		`level=DEBUG msg=Decided domain=shop code=OK descriptors="(two=x) OK (user=a b,k=v) OK"` + "\n",
		`level=DEBUG msg=Decided domain=shop code=OVER_LIMIT descriptors="(two=x) OVER_LIMIT (user=a b,k=v) OK"` + "\n",
		`level=DEBUG msg="Not decided" domain=shop reason="descriptors: rate limit descriptor list must not be empty"` + "\n",
		`descriptors="(user=` + strings.Repeat("x", debugBytesMax-len("(user=")) + `…"` + "\n",
	} {
		if !strings.Contains(lines, part) {
			t.Errorf("%s is not logged in\n%s", part, lines)
		}
	}
	if debugLog(slog.New(slog.NewTextHandler(&text, nil))) != nil {
		t.Error("requests are logged at the level info")
	}
}
