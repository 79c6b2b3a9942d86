package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/program/service"
	"weir/internal/test/testkit"
)

// parse reads settings from flags and an empty environment.
func parse(t *testing.T, args ...string) (*Config, error) {
	t.Helper()
	var c Config
	s := service.NewSettings("advisor")
	c.Register(s)
	if _, err := s.Parse(args, func(string) string { return "" }); err != nil {
		return nil, err
	}
	return &c, c.Complete()
}

func TestDefaults(t *testing.T) {
	c := testkit.Must(parse(t))(t)
	if c.LimitMin != 5 || c.LimitMax != 100_000 || c.Zone != time.UTC || c.StateEvery != 5*time.Minute ||
		c.HistoryURL != nil ||
		c.HistoryQuery != "sum(rate(ratelimiter_requests_total[1m]))" || c.CapacityRPS != 0 || c.SLO != 0 || c.Events != nil {
		t.Errorf("the defaults are %+v", c)
	}
}

func TestGiven(t *testing.T) {
	file := filepath.Join(t.TempDir(), "events.yaml")
	if err := os.WriteFile(file, []byte("- {name: sale, start: 2026-11-27 08:00, end: 2026-11-27 20:00, ramp: 30m}\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	c := testkit.Must(parse(t, "-capacity-rps=120", "-slo-p95=250ms", "-timezone=America/New_York",
		"-history-url=https://u:p@prom:9090/x", "-events-file="+file))(t)
	if c.CapacityRPS != 120 || c.SLO != 250*time.Millisecond || c.Zone.String() != "America/New_York" ||
		c.HistoryURL.Host != "prom:9090" {
		t.Errorf("the settings are %+v", c)
	}
	if want := time.Date(2026, 11, 27, 13, 0, 0, 0, time.UTC); len(c.Events) != 1 || !c.Events[0].Start.Equal(want) ||
		c.Events[0].Ramp != 30*time.Minute {
		t.Errorf("the events are %+v", c.Events)
	}
}

func TestWrongSettings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "events.yaml")
	if err := os.WriteFile(file, []byte("- name: x\n  start: soon\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ arg, want string }{
		{"-timezone=Mars/Olympus", `TIMEZONE: "Mars/Olympus" is not the name of a time zone; allowed: a name of the IANA database such as Europe/Berlin`},
		{"-timezone=Local", "TIMEZONE"},
		{"-history-url=prom:9090", `HISTORY_URL: "prom:9090" is not the URL of a server; allowed: an http or https URL`},
		{"-history-url=http://", "HISTORY_URL"},
		{"-slo-p95=2h", "SLO_P95"},
		{"-capacity-rps=-1", "CAPACITY_RPS"},
		{"-limit-min-rps=0", "LIMIT_MIN_RPS"},
		{"-limit-max-rps=1", `LIMIT_MIN_RPS: "5" is more than LIMIT_MAX_RPS; allowed: at most 1`},
		{"-state-interval=1ms", "STATE_INTERVAL"},
		{"-events-file=/nowhere", `EVENTS_FILE: "/nowhere" cannot be used: no such file or directory`},
		{"-events-file=" + file, "line 2: [0].start: must be a time such as"},
	} {
		_, err := parse(t, c.arg)
		if _, ok := errors.AsType[*service.SettingError](err); !ok || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.arg, err, c.want)
		}
	}
}
