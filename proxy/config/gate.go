package config

import (
	"fmt"
	"strconv"
	"time"

	"weir/internal/program/service"
	"weir/proxy/targets/gate"
	"weir/proxy/targets/gates"
	"weir/proxy/targets/upstream"
)

// gateMin is the default of GATE_MIN.
const gateMin = 2

func registerGate(s *service.Settings, g *gates.Settings) {
	s.Choice("GATE", "on", "bound the requests in flight to each target by how fast it answers; shadow: only count the "+
		"requests that would have to wait",
		service.Among(&g.Mode, gate.Off, gate.Shadow, gate.On))
	s.OptionalDuration(&g.SLO, "SLO_P95", time.Millisecond, time.Hour,
		"95th percentile of the latency that clients expect; half of it bounds GATE_WAIT unless that is set, and the "+
			"answer time up to which a gate does not limit a target")
	g.Wait, g.WaitMax = -1, -1
	s.OptionalDuration(&g.Wait, "GATE_WAIT", 0, time.Minute,
		fmt.Sprintf("how long a request waits for a place at a target under lasting overload; then 503; a burst may wait "+
			"up to %d times as long, but no longer than GATE_WAIT_MAX; 0: no waiting; default: %v, or half of "+
			"SLO_P95 if that is less", upstream.Patience, gate.Wait))
	s.OptionalDuration(&g.WaitMax, "GATE_WAIT_MAX", 0, time.Hour,
		fmt.Sprintf("how long a request waits for a place at a target at most, after which its client may have left; then "+
			"503; at least GATE_WAIT; 0: no bound; default: %v, or twice GATE_WAIT if that is more", gate.WaitMax))
	s.Int(&g.Min, "GATE_MIN", gateMin, 1, 1<<20,
		"lower bound of the limit on requests in flight to a target; from TARGET_MAX_CONNECTIONS on the gate has no effect")
	s.Int(&g.Max, "GATE_MAX", 0, 0, 1<<20,
		"upper bound of the limit on requests in flight to a target; 0: TARGET_MAX_CONNECTIONS")
}

func completeGate(g *gates.Settings) error {
	if g.Wait < 0 {
		g.Wait = gate.Wait
		if g.SLO > 0 {
			g.Wait = min(g.Wait, g.SLO/2)
		}
	}
	if g.WaitMax < 0 {
		g.WaitMax = max(gate.WaitMax, 2*g.Wait)
	}
	if g.WaitMax > 0 && g.WaitMax < g.Wait {
		return &service.SettingError{Name: "GATE_WAIT_MAX", Value: g.WaitMax.String(), Problem: "is below GATE_WAIT",
			Allowed: fmt.Sprintf("0, or at least %v", g.Wait)}
	}
	if g.Max > 0 && g.Max < g.Min {
		return &service.SettingError{Name: "GATE_MAX", Value: strconv.Itoa(g.Max), Problem: "is below GATE_MIN",
			Allowed: fmt.Sprintf("0, or at least %d", g.Min)}
	}
	return nil
}

// noteGate notes a GATE_MIN that turns the gates off, because the connections to a target are
// always the tighter bound.
func (c *Config) noteGate() {
	if g := &c.Gate; g.Mode != gate.Off && g.Min > gateMin && g.Min >= c.TargetConnsMax {
		c.Notes = append(c.Notes, fmt.Sprintf(
			"GATE_MIN=%d is not below TARGET_MAX_CONNECTIONS=%d: the gate never limits a target", g.Min, c.TargetConnsMax))
	}
}
