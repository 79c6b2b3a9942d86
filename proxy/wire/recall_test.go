package wire

import (
	"encoding/hex"
	"testing"
	"time"

	"weir/proxy/exchange"
	"weir/proxy/limit"
	"weir/proxy/rule"
)

// newRefuser is a side that remembers as many refusals.
func newRefuser(size int) *side { return &side{refusals: newRecall[refused](size)} }

// newRefusal is a refusal that costs n.
func newRefusal(t *testing.T, n int64) *exchange.Refusal {
	t.Helper()
	l, err := limit.New(limit.Config{Algorithm: limit.Fixed, Limit: 1, Window: 1})
	if err != nil {
		t.Fatal(err)
	}
	return &exchange.Refusal{Rule: &rule.Rule{ID: "r"}, Limit: &l, Cost: n, Key: []byte("k")}
}

// Whoever knows their own decision id can derive no other: each of the 96 bits
// is random, within a loop and across loops.
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
			got, ok := s.refusals.find(id)
			if remembered := k > i-size; ok != remembered || ok && got.cost != int64(k) {
				t.Errorf("after %d refusals the one with the cost %d: found %t as %d", i+1, k, ok, got.cost)
			}
		}
	}
	for _, id := range []string{"", "zz", ids[0][:22], ids[8] + "00", "zz" + ids[8][2:], "000000000000000000000000"} {
		if _, ok := s.refusals.find(id); ok {
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
