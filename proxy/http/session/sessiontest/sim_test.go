package sessiontest

import (
	"flag"
	"testing"
)

var (
	simSeed   = flag.Uint64("sim-seed", 0, "play the world of this seed only")
	simEvents = flag.Int("sim-events", 25_000, "events of each world")
	simWorlds = flag.Int("sim-worlds", 60, "how many worlds, of the seeds 1, 2, …")
)

// TestWorlds plays worlds until something does not hold.
//
//	go test ./proxy/http/session/sessiontest -run Worlds -sim-seed 7 -sim-events 25000
func TestWorlds(t *testing.T) {
	all := Tally{Seen: make(map[string]int), Statuses: make(map[int]int)}
	seeds := make([]uint64, 0, *simWorlds)
	for i := range *simWorlds {
		seeds = append(seeds, uint64(i+1))
	}
	if *simSeed > 0 {
		seeds = []uint64{*simSeed}
	}
	for _, seed := range seeds {
		saw, err := Run(seed, *simEvents)
		if err != nil {
			t.Fatalf("%v\nagain: go test ./proxy/http/session/sessiontest -run Worlds -sim-seed %d -sim-events %d", err, seed,
				*simEvents)
		}
		all.Add(&saw)
	}
	t.Log(&all)
	if *simSeed == 0 {
		sawAll(t, &all)
	}
}

// sawAll fails when something that the worlds are for did not happen in them.
func sawAll(t *testing.T, all *Tally) {
	for _, what := range []string{"answers of targets", "answers of the proxy's own", "answers cut off",
		"requests refused", "requests stored",
		"requests stored whose client had left", "requests not stored", "requests sent again", "tunnels", "streams",
		"sides that took nothing", "deadlines",
		"logins", "requests on private connections", "connections closed for good",
		"requests whose client left the target to work", "connections used again after their client left"} {
		if n := all.Seen[what]; n < 10 {
			t.Errorf("only %d %s in %d events", n, what, all.Events)
		}
	}
	for _, status := range []int{101, 200, 202, 204, 304, 400, 405, 408, 413, 417, 429, 500, 502, 503, 504, 508} {
		if all.Statuses[status] == 0 {
			t.Errorf("not one outcome of status %d in %d events", status, all.Events)
		}
	}
}

// A world is its seed's: played twice it is the same.
func TestSameSeedSameWorld(t *testing.T) {
	first, err := Run(2, 5000)
	if err != nil {
		t.Fatal(err)
	}
	if second, _ := Run(2, 5000); first.String() != second.String() {
		t.Errorf("the same seed gave\n%s\n%s", &first, &second)
	}
}
