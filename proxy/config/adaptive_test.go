package config

import (
	"errors"
	"strings"
	"testing"
	"time"

	"weir/internal/program/service"
	"weir/proxy/limit/rails"
)

func TestAdaptive(t *testing.T) {
	want := Adaptive{Mode: "false", URL: "http://127.0.0.1:8084", Interval: 30 * time.Second, Timeout: 2 * time.Second,
		Rails: rails.Rails{Min: 5, Max: 100_000, Step: 4, Dwell: 3 * time.Minute}, Stale: 3, Scale: 1}
	if got := must(t).Adaptive; got != want {
		t.Errorf("by default %+v", got)
	}
	want = Adaptive{Mode: "shadow", URL: "https://advisor:9000/weir", Interval: time.Minute, Timeout: time.Second,
		Rails: rails.Rails{Min: 1, Max: 10, Step: 1.5, Dwell: 0}, Stale: 5, Scale: 60}
	got := must(t, "ADAPTIVE_MODE", "shadow", "ADVISOR_URL", "https://advisor:9000/weir/", "ADAPTIVE_UPDATE_INTERVAL",
		"1m", "ADAPTIVE_TIMEOUT", "1s",
		"LIMIT_MIN_RPS", "1", "LIMIT_MAX_RPS", "10", "LIMIT_MAX_STEP", "1.5", "ALGORITHM_MIN_DWELL", "0s",
		"ADAPTIVE_STALE_AFTER", "5",
		"ADAPTIVE_TIME_SCALE", "60").Adaptive
	if got != want || got.SnapshotInterval() != time.Second {
		t.Errorf("as set %+v, a pause of %v", got, got.SnapshotInterval())
	}
	if c := must(t, "LIMIT_MIN_RPS", "7", "LIMIT_MAX_RPS", "7", "ADAPTIVE_UPDATE_INTERVAL", "1s",
		"ADAPTIVE_TIME_SCALE", "100").Adaptive; c.SnapshotInterval() != adaptivePauseMin {
		t.Errorf("at the bounds: %+v", c)
	}
}

func TestWrongAdaptive(t *testing.T) {
	for _, test := range []struct{ name, value, want string }{
		{"ADAPTIVE_MODE", "maybe", "false, true, shadow"},
		{"ADVISOR_URL", "advisor:8084", "is not a URL"},
		{"ADVISOR_URL", "ftp://advisor", "does not begin with http"},
		{"ADVISOR_URL", "http://", "is not a URL"},
		{"ADVISOR_URL", "http://me:secret@advisor", "more than host, port and path"},
		{"ADVISOR_URL", "http://advisor/?x=1", "more than host, port and path"},
		{"ADVISOR_URL", "http://advisor:70000", "a port"},
		{"ADAPTIVE_UPDATE_INTERVAL", "999ms", "1s"},
		{"ADAPTIVE_TIMEOUT", "0s", "1ms"},
		{"LIMIT_MIN_RPS", "100001", "is more than LIMIT_MAX_RPS, 100000"},
		{"LIMIT_MIN_RPS", "0", "out of range"},
		{"LIMIT_MAX_RPS", "NaN", "LIMIT_MAX_RPS"},
		{"LIMIT_MAX_STEP", "0.9", "out of range"},
		{"ADAPTIVE_STALE_AFTER", "0", "out of range"},
		{"ADAPTIVE_TIME_SCALE", "3001", "at least 10ms"},
	} {
		_, err := parse(test.name, test.value)
		wrong, ok := errors.AsType[*service.SettingError](err)
		if !ok || wrong.Name != test.name || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s=%s: %v, want %q", test.name, test.value, err, test.want)
		}
	}
}
