package config

import (
	"strings"
	"testing"
	"time"

	"weir/proxy/targets/gate"
)

// A request waits no longer than half of the answer time that is to be kept, unless
// GATE_WAIT says so.
func TestGateWait(t *testing.T) {
	for _, test := range []struct {
		env       []string
		wait, slo time.Duration
	}{
		{nil, 50 * time.Millisecond, 0},
		{[]string{"SLO_P95", "1s"}, 50 * time.Millisecond, time.Second},
		{[]string{"SLO_P95", "100ms"}, 50 * time.Millisecond, 100 * time.Millisecond},
		{[]string{"SLO_P95", "30ms"}, 15 * time.Millisecond, 30 * time.Millisecond},
		{[]string{"SLO_P95", "1ms"}, 500 * time.Microsecond, time.Millisecond},
		{[]string{"SLO_P95", "30ms", "GATE_WAIT", "50ms"}, 50 * time.Millisecond, 30 * time.Millisecond},
		{[]string{"SLO_P95", "1h", "GATE_WAIT", "0"}, 0, time.Hour},
	} {
		if g := must(t, test.env...).Gate; g.Wait != test.wait || g.SLO != test.slo || g.Mode != gate.On || g.Min != 2 ||
			g.Max != 0 {
			t.Errorf("%v: %+v, want wait %v, SLO %v", test.env, g, test.wait, test.slo)
		}
	}
}

// No request waits for longer than a second, unless a setting says that it may.
func TestGateWaitMax(t *testing.T) {
	for _, test := range []struct {
		env  []string
		most time.Duration
	}{
		{nil, time.Second},
		{[]string{"GATE_WAIT", "3s"}, 6 * time.Second},
		{[]string{"GATE_WAIT_MAX", "300ms"}, 300 * time.Millisecond},
		{[]string{"GATE_WAIT", "0"}, time.Second},
		{[]string{"GATE_WAIT_MAX", "0"}, 0},
	} {
		if most := must(t, test.env...).Gate.WaitMax; most != test.most {
			t.Errorf("%v: a request waits for %v at most, want %v", test.env, most, test.most)
		}
	}
}

// Absurd values are named, with what is allowed.
func TestGateFaults(t *testing.T) {
	const slo, wait = "is out of range; allowed: 1ms … 1h", "is out of range; allowed: 0s … 1m"
	for _, test := range []struct{ text, says string }{
		{"SLO_P95=0", slo}, {"SLO_P95=0s", slo}, {"SLO_P95=-50ms", slo}, {"SLO_P95=1ns", slo}, {"SLO_P95=999us", slo},
		{"SLO_P95=87600h", slo},
		{"SLO_P95=10y", "is not a duration such as 250ms, 30s or 5m; allowed: 1ms … 1h"},
		{"SLO_P95=50", "is not a duration such as 250ms, 30s or 5m; allowed: 1ms … 1h"},
		{"GATE_WAIT=-1ms", wait}, {"GATE_WAIT=61s", wait}, {"GATE_WAIT=87600h", wait},
		{"GATE_WAIT_MAX=40ms", "is below GATE_WAIT; allowed: 0, or at least 50ms"},
		{"GATE_WAIT_MAX=2h", "is out of range; allowed: 0s … 1h"},
		{"GATE=yes", "allowed: off, shadow, on"},
		{"GATE_MIN=0", "allowed: 1 … 1048576"}, {"GATE_MIN=-2", "allowed: 1 … 1048576"},
		{"GATE_MAX=-1", "allowed: 0 … 1048576"}, {"GATE_MAX=1", "is below GATE_MIN; allowed: 0, or at least 2"},
	} {
		name, value, _ := strings.Cut(test.text, "=")
		if _, err := parse(name, value); err == nil || !strings.HasPrefix(err.Error(), name+`: "`+value+`" `) ||
			!strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want %q", test.text, err, test.says)
		}
	}
	for _, test := range []struct {
		env  []string
		want string
	}{
		{[]string{"GATE_MIN", "1023"}, ""},
		{[]string{"GATE_MIN", "1024"},
			"GATE_MIN=1024 is not below TARGET_MAX_CONNECTIONS=1024: the gate never limits a target"},
		{[]string{"GATE_MIN", "9", "TARGET_MAX_CONNECTIONS", "5", "GATE", "shadow"},
			"GATE_MIN=9 is not below TARGET_MAX_CONNECTIONS=5: the gate never limits a target"},
		{[]string{"GATE_MIN", "9", "TARGET_MAX_CONNECTIONS", "5", "GATE", "off"}, ""},
		{[]string{"TARGET_MAX_CONNECTIONS", "1"}, ""},
	} {
		if got := strings.Join(must(t, test.env...).Notes, "\n"); got != test.want {
			t.Errorf("%v: noted %q, want %q", test.env, got, test.want)
		}
	}
	if g := must(t, "GATE_MIN", "3", "GATE_MAX", "3").Gate; g.Min != 3 || g.Max != 3 {
		t.Errorf("GATE_MIN=GATE_MAX=3 is %+v", g)
	}
}
