package simredis

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"weir/proxy/limit"
)

// put inserts a record of no kind.
func put(s *stripe, hash uint64, name []byte) {
	r, slot := s.insert(hash, name)
	s.set(r, slot, new(limit.State), 0)
}

// A stripe under a random history of inserts and removals holds what a map holds,
// with hashes that meet often: equal ones, neighbours, and those of the last
// places, from which probing wraps around. Records of one name differ by their kind.
func TestStripeIsAMap(t *testing.T) {
	for seed := range uint64(5) {
		r := rand.New(rand.NewPCG(seed, 5))
		var s stripe
		expires := map[string]int64{}
		states := []limit.State{{}, {}, {}}
		perMinute.Take(0, &states[1], 1, 1)
		perHour.Take(0, &states[2], 1, 1)
		for step := range int64(2000) {
			hash := uint64(r.IntN(20)) - 10
			name := fmt.Sprintf("%d-%*d", hash, 1+r.IntN(40), r.IntN(3))
			state := &states[r.IntN(len(states))]
			place := s.place(hash, []byte(name), state.Kind())
			id := fmt.Sprint(name, state.Kind())
			want, known := expires[id]
			if known != (place >= 0) || known && s.record(place).expires() != want {
				t.Fatalf("seed %d, step %d: %s is at place %d, want %v", seed, step, name, place, known)
			}
			switch {
			case !known:
				r, slot := s.insert(hash, []byte(name))
				s.set(r, slot, state, step)
				expires[id] = step
			case r.IntN(3) > 0:
				s.remove(place)
				delete(expires, id)
			}
			if s.live != len(expires) {
				t.Fatalf("seed %d, step %d: %d live, want %d", seed, step, s.live, len(expires))
			}
			for _, kind := range s.kinds(hash, []byte(name)) {
				if _, known := expires[fmt.Sprint(name, kind)]; !known {
					t.Fatalf("seed %d, step %d: %s is there under a kind that was not inserted", seed, step, name)
				}
			}
		}
	}
}

// Keys that come and go use the same memory again.
func TestStripeReusesMemory(t *testing.T) {
	var s stripe
	put(&s, 1, []byte("stays"))
	for round := range uint64(1000) {
		for i := range uint64(20) {
			put(&s, i<<20|round, fmt.Appendf(nil, "key %d of round %d", i, round%10))
		}
		for i := range uint64(20) {
			s.remove(s.place(i<<20|round, fmt.Appendf(nil, "key %d of round %d", i, round%10), 0))
		}
	}
	if len(s.records.pages) > 2 || len(s.index) > 64 {
		t.Errorf("20 keys at a time took %d pages and %d places", len(s.records.pages), len(s.index))
	}
}

// The last key gives all memory back.
func TestEmptyStripeHoldsNothing(t *testing.T) {
	var s stripe
	for i := range uint64(1000) {
		put(&s, i, fmt.Appendf(nil, "key %d", i))
	}
	for i := range uint64(1000) {
		s.remove(s.place(i, fmt.Appendf(nil, "key %d", i), 0))
	}
	if s.live != 0 || s.index != nil || s.records.pages != nil {
		t.Errorf("an empty stripe holds %d keys, %d places, %d pages", s.live, len(s.index), len(s.records.pages))
	}
}
