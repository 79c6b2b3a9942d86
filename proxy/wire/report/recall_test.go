package report

import (
	"encoding/hex"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/limit"
	"weir/proxy/rules/decide"
	"weir/proxy/rules/rule"
	"weir/proxy/targets/gate"
	"weir/proxy/targets/gates"
	"weir/proxy/targets/roster"
)

// A refuser remembers refusals.
type refuser struct {
	*RecentDecisions[RefusedRequest]
}

func newRefuser(size int) refuser { return refuser{NewRecentDecisions[RefusedRequest](size)} }

func (m refuser) refused(now time.Time, refusal *decide.Refusal) []byte {
	return m.Record(func(r *RefusedRequest) { r.Record(now, refusal) })
}

// newRefusal is a refusal that costs n.
func newRefusal(t *testing.T, n int64) *decide.Refusal {
	t.Helper()
	l := testkit.Must(limit.New(limit.Config{Algorithm: limit.Fixed, Limit: 1, Window: 1}))(t)
	return &decide.Refusal{Rule: &rule.Rule{ID: "r"}, Limit: &l, Cost: n, Key: []byte("k")}
}

// No other decision id can be derived from a known one: each of the 96 bits is random, within a
// loop and across loops.
func TestDecisionIDsAreRandom(t *testing.T) {
	const ids = 200
	refusal := newRefusal(t, 1)
	s := newRefuser(ids)
	var before, ones, flips decisionID
	distances := make(map[decisionID]bool)
	for i := range ids {
		if i == ids/2 {
			s = newRefuser(ids)
		}
		text := string(s.refused(time.Unix(0, 0), refusal))
		raw, err := hex.DecodeString(text)
		if err != nil || len(raw) != len(before) {
			t.Fatalf("the id %q is not 24 hex digits", text)
		}
		id := decisionID(raw)
		var distance decisionID
		for k := range id {
			ones[k] |= id[k]
			flips[k] |= ^id[k]
			distance[k] = id[k] ^ before[k]
		}
		distances[distance] = true
		before = id
	}
	for k := range ones {
		if ones[k] != 0xff || flips[k] != 0xff {
			t.Errorf("byte %d of %d ids was never anything but ones %08b, zeros %08b", k, ids, ones[k], flips[k])
		}
	}
	if len(distances) != ids {
		t.Errorf("between %d neighbours there are only %d distances", ids, len(distances))
	}
}

// The newest refusals are found, as many as there are places.
func TestRecallBound(t *testing.T) {
	const size = 4
	s := newRefuser(size)
	var ids []string
	for i := range 2*size + 1 {
		ids = append(ids, string(s.refused(time.Unix(0, 0), newRefusal(t, int64(i)))))
		for k, id := range ids {
			got, ok := s.Find(id)
			if remembered := k > i-size; ok != remembered || ok && got.cost != int64(k) {
				t.Errorf("after %d refusals the one with the cost %d: found %t as %d", i+1, k, ok, got.cost)
			}
		}
	}
	for _, id := range []string{"", "zz", ids[0][:22], ids[8] + "00", "zz" + ids[8][2:], "000000000000000000000000"} {
		if _, ok := s.Find(id); ok {
			t.Errorf("something is found for the id %q", id)
		}
	}
}

func TestRecallDoesNotAllocate(t *testing.T) {
	s, refusal := newRefuser(8), newRefusal(t, 1)
	s.refused(time.Unix(0, 0), refusal)
	if n := testing.AllocsPerRun(1000, func() { s.refused(time.Unix(0, 0), refusal) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// The explanation of a shed request has what was recorded, with the last cut if there was one.
func TestShed(t *testing.T) {
	m := NewRecentDecisions[ShedRequest](2)
	cuts := []gate.Decrease{{At: time.Unix(5, 0), From: 9, To: 7}, {At: time.Unix(6, 0), From: 7, To: 3}}
	for n := range cuts {
		id := string(m.Record(func(d *ShedRequest) {
			*d = ShedRequest{At: time.Unix(7, 0), Target: &roster.Target{URL: "http://a:80", Addr: "10.0.0.1:80"}, InFlight: 3,
				Waiting: 2, Waited: time.Second}
			d.SetGate(gate.State{Limit: 3, Median: 20 * time.Millisecond, Last: cuts[:2*n]})
		}))
		d, ok := m.Find(id)
		e := d.Explain(id, new(gates.MetricClasses))
		if !ok || e.ID != id || e.Reason != "gate" || e.Address != "10.0.0.1:80" || e.Class != "default" ||
			e.Limit != 3 || e.InFlight != 3 || e.Waiting != 2 || e.Waited != 1 || e.Median != 0.02 {
			t.Errorf("told %+v", e)
		}
		if (e.Last != nil) != (n > 0) || e.Last != nil && e.Last.To != 3 {
			t.Errorf("the last of %d cuts is %+v", 2*n, e.Last)
		}
	}
}
