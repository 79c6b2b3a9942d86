package rig

import (
	"context"
	"errors"
	"time"
)

// A Contestant is a program that wrk loads as fast as it answers.
type Contestant struct {
	Name    string
	Addr    string   // where it serves; empty if only Wrk needs it
	Wrk     Wrk      // the load; Sample sets its connections and duration
	Process *Process // whose CPU time and memory are measured; nil for none
	Redis   *Redis   // that it uses; nil for none
	Own     string   // address of its metrics, for the commands of its store; empty for none
	Refuses bool     // all answers should be refusals
}

// A Sample is one run against a Contestant.
type Sample struct {
	Requests, PerSecond float64
	P50                 float64 // latency in µs
	CPU                 float64 // µs of its CPU time per request
	Redis               float64 // µs of its Redis' CPU time per request
	Commands            float64 // store commands per request
	Resident            float64 // peak resident memory, MB
}

// The figures that comparisons use.
func PerSecond(s Sample) float64 { return s.PerSecond }
func P50(s Sample) float64       { return s.P50 }
func CPUEach(s Sample) float64   { return s.CPU }
func RedisEach(s Sample) float64 { return s.Redis }
func Commands(s Sample) float64  { return s.Commands }
func Resident(s Sample) float64  { return s.Resident }

// Sample loads the contestant for a span.
func (c *Contestant) Sample(ctx context.Context, connections int, span time.Duration) (s Sample) {
	In(c.Name, func() { s = c.sample(ctx, connections, span) })
	return s
}

func (c *Contestant) sample(ctx context.Context, connections int, span time.Duration) Sample {
	cpuBefore, commandsBefore := c.spent(ctx)
	stop := func() (Usage, error) { return Usage{}, nil }
	if c.Process != nil {
		stop = Must(Watch(c.Process.Pid()))
	}
	w := c.Wrk
	w.Connections, w.For = connections, span
	r, err := w.Run(ctx)
	used, watched := stop()
	Check(errors.Join(err, watched))
	Check(r.Expect(c.Refuses))
	cpu, commands := c.spent(ctx)
	n := max(r.Requests, 1)
	each := func(d time.Duration) float64 { return 1e6 * d.Seconds() / n }
	return Sample{Requests: r.Requests, PerSecond: r.PerSecond, P50: 1e6 * r.P50.Seconds(), CPU: each(used.CPU),
		Redis: each(cpu - cpuBefore), Commands: (commands - commandsBefore) / n, Resident: float64(used.RSSPeak) / 1e6}
}

// spent returns the CPU time of the contestant's Redis and the commands of its store so far.
func (c *Contestant) spent(ctx context.Context) (cpu time.Duration, commands float64) {
	if c.Redis != nil {
		cpu = Must(CPU(c.Redis.Pid()))
	}
	if c.Own != "" {
		commands = Must(Scrape(ctx, c.Own)).Sum("ratelimiter_store_commands_total")
	}
	return cpu, commands
}
