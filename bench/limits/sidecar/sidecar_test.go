package sidecar

import (
	"testing"
	"time"

	"weir/bench/lab/result"
	"weir/bench/lab/result/resulttest"
	"weir/bench/lab/rig"
)

// played is a failure from 2 s to 6 s: one request in 100 ms of either load.
func played() *outcome {
	o := &outcome{loads: []*rig.LoadResult{{}, {}}, late: []time.Duration{2 * time.Millisecond}}
	for due := time.Duration(0); due < failTime; due += 100 * time.Millisecond {
		status, away := 429, due >= failAfter && due < healAfter
		if away || due < 10*100*time.Millisecond {
			status = 200
		}
		wait := time.Millisecond
		if away {
			wait = 100 * time.Millisecond
		}
		o.loads[0].Outcomes = append(o.loads[0].Outcomes, rig.Outcome{Due: due, Done: due + wait, Status: 200})
		o.loads[1].Outcomes = append(o.loads[1].Outcomes, rig.Outcome{Due: due, Done: due + wait, Status: status})
	}
	return o
}

func TestFailures(t *testing.T) {
	for _, c := range []struct {
		name, want string
		spoil      func(news, limited []rig.Outcome)
	}{
		{"as it should be", "", func(_, _ []rig.Outcome) {}},
		{"an error", "1 requests were answered with 5xx", func(news, _ []rig.Outcome) { news[30].Status = 502 }},
		{"no answer", "1 requests were answered with 5xx or not", func(_, limited []rig.Outcome) { limited[30].Status = 0 }},
		{"a wait that the machine explains", "",
			func(news, _ []rig.Outcome) { news[30].Done = news[30].Due + 106*time.Millisecond }},
		{"a long wait", "p99.9 of the wait in ms, less the control's: 106",
			func(news, _ []rig.Outcome) { news[30].Done = news[30].Due + 108*time.Millisecond }},
		{"late to limit again", "limiting again after ms: 1100", func(_, limited []rig.Outcome) { limited[71].Status = 200 }},
		{"the failure mode admits nothing", "admitted nothing", func(_, limited []rig.Outcome) {
			for i := 20; i < 60; i++ {
				limited[i].Status = 429
			}
		}},
	} {
		o := played()
		c.spoil(o.loads[0].Outcomes, o.loads[1].Outcomes)
		o.measure(healAfter)
		var e result.Expectations
		o.expect(&e, "failure", 100*time.Millisecond)
		resulttest.RequireMissed(t, c.name, &e, c.want)
	}
}

func TestShare(t *testing.T) {
	for _, c := range []struct {
		name, want string
		spoil      func(admitted []uint64, loads []*rig.LoadResult)
	}{
		{"as it should be", "", func([]uint64, []*rig.LoadResult) {}},
		{"the load begins", "", func(admitted []uint64, _ []*rig.LoadResult) { admitted[1] = 1300 }},
		{"too many", "second 4: 1006 admitted", func(admitted []uint64, _ []*rig.LoadResult) { admitted[3] = 1006 }},
		{"too few", "second 4: 994 admitted", func(admitted []uint64, _ []*rig.LoadResult) { admitted[3] = 994 }},
		{"the killed one fails", "", func(_ []uint64, loads []*rig.LoadResult) { loads[0].Errors = 9 }},
		{"another one fails", "sidecar 2: 1 requests failed", func(_ []uint64,
			loads []*rig.LoadResult) {
			loads[1].Errors = 1
		}},
	} {
		l, admitted, loads := &lab{new(rig.Lab)}, []uint64{500, 1000, 1000, 1000, 1000, 1000}, []*rig.LoadResult{{}, {}}
		c.spoil(admitted, loads)
		l.judgeShare(admitted, loads)
		resulttest.RequireMissed(t, c.name, &l.Expectations, c.want)
	}
}
