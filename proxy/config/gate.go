package config

import (
	"time"

	"weir/internal/service"
	"weir/proxy/gate"
)

// Gate is the settings of the gates, which bound what is in flight to each target.
type Gate struct {
	Mode     gate.Mode
	Wait     time.Duration
	Min, Max int // of an event loop; Max 0: no bound of its own
}

func (g *Gate) register(s *service.Settings) {
	s.Func("GATE", "off", "bound what is in flight to each target by how fast it answers; shadow only counts the requests that would have to wait", "off, shadow, on",
		func(word string) (err error) { g.Mode, err = gate.ParseMode(word); return err })
	s.Duration(&g.Wait, "GATE_WAIT", 50*time.Millisecond, 0, time.Minute, "longest wait for a place at a target; then 503; 0: none")
	s.Int(&g.Min, "GATE_MIN", 2, 1, 1<<20, "requests in flight to a target that each event loop always lets through")
	s.Int(&g.Max, "GATE_MAX", 0, 0, 1<<20, "requests in flight to a target beyond which an event loop never goes; 0: its share of TARGET_MAX_CONNECTIONS")
}
