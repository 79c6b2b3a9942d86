package config

import (
	"errors"
	"fmt"
	"time"

	"weir/internal/program/service"
	"weir/proxy/targets/gate"
	"weir/proxy/targets/gates"
	"weir/proxy/targets/upstream"
)

func registerGate(s *service.Settings, g *gates.Settings) {
	noTarget := s.NoEffectWhen("TARGET_URL", noTargets)
	g.Wait, g.WaitMax = -1, -1
	s.Add(service.SettingList{
		{Name: "GATE", Default: "on", Value: service.StringerEnum(&g.Mode, gate.Off, gate.Shadow, gate.On),
			NoEffect: noTarget,
			Help: "bound the requests in flight to each target by how fast it answers; shadow: only count the requests that " +
				"would have to wait"},
	})
	s.AddWithNoEffect(s.NoEffectWhen("GATE", "off"), service.SettingList{
		{Name: "SLO_P95", Value: service.Duration(&g.SLO, time.Millisecond, time.Hour), NoEffect: noTarget,
			Help: "95th percentile of the latency that clients expect; half of it bounds GATE_WAIT unless that is set, and " +
				"the answer time up to which a gate does not limit a target"},
		{Name: "GATE_WAIT", Value: service.Duration(&g.Wait, 0, time.Minute), NoEffect: noTarget,
			Help: fmt.Sprintf("how long a request waits for a place at a target under lasting overload; then 503; a burst "+
				"may wait up to %d times as long, but no longer than GATE_WAIT_MAX; 0: no waiting; default: %v, or half of "+
				"SLO_P95 if that is less", upstream.PatienceFactor, gate.WaitDefault)},
		{Name: "GATE_WAIT_MAX", Value: service.Duration(&g.WaitMax, 0, time.Hour), NoEffect: noTarget,
			Help: fmt.Sprintf("how long a request waits for a place at a target at most, after which its client may have "+
				"left; then 503; at least GATE_WAIT; 0: no bound; default: %v, or twice GATE_WAIT if that is more", gate.WaitMax)},
		{Name: "GATE_MIN", Default: "2", Value: service.Int(&g.Min, 1, 1<<20), NoEffect: noTarget,
			Help: "lower bound of the limit on requests in flight to a target; from TARGET_MAX_CONNECTIONS on the gate has no " +
				"effect"},
		{Name: "GATE_MAX", Default: "0", Value: service.Int(&g.Max, 0, 1<<20), NoEffect: noTarget,
			Help: "upper bound of the limit on requests in flight to a target; 0: TARGET_MAX_CONNECTIONS"},
	})
}

func completeGate(s *service.Settings, g *gates.Settings) error {
	if g.Wait < 0 {
		g.Wait = gate.WaitDefault
		if g.SLO > 0 {
			g.Wait = min(g.Wait, g.SLO/2)
		}
	}
	if g.WaitMax < 0 {
		g.WaitMax = max(gate.WaitMax, 2*g.Wait)
	}
	return errors.Join(
		s.FaultIf(g.WaitMax > 0 && g.WaitMax < g.Wait, "GATE_WAIT_MAX", "is below GATE_WAIT",
			fmt.Sprintf("0, or at least %v", g.Wait)),
		s.FaultIf(g.Max > 0 && g.Max < g.Min, "GATE_MAX", "is below GATE_MIN", fmt.Sprintf("0, or at least %d", g.Min)))
}

// noteGate notes a GATE_MIN that turns the gates off, because the connections to a target are
// always the tighter bound.
func (c *Config) noteGate() {
	if g := &c.Gate; g.Mode != gate.Off && c.settings.Changed("GATE_MIN") && g.Min >= c.TargetConnsMax {
		c.Notes = append(c.Notes, fmt.Sprintf(
			"GATE_MIN=%d is not below TARGET_MAX_CONNECTIONS=%d: the gate never limits a target", g.Min, c.TargetConnsMax))
	}
}
