package postgres

import (
	"context"
	"math"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"weir/bench/lab/result"
	"weir/bench/lab/rig"
	"weir/loadgen/record"
	"weir/proxy/store/postgres/postgrestest"
)

// Each way admits one request of a user in a period, whoever asks.
func TestRecipes(t *testing.T) {
	server := postgrestest.Start(t)
	ctx := context.Background()
	for _, way := range recipes {
		server.Do("weir", "DROP TABLE IF EXISTS limits; "+way.schema)
		var conns [2]*pgconn.PgConn
		for i := range conns {
			var err error
			if conns[i], err = pgconn.Connect(ctx, server.URL("weir", "weir")); err != nil {
				t.Fatal(err)
			}
		}
		const start, period = 1_700_000_000_000_000, 2_000_000
		for i, step := range []struct {
			user     string
			at       int64
			admitted bool
		}{{"a", 0, true}, {"a", 1, false}, {"b", 1, true}, {"a", period - 1, false}, {"a", period, true},
			{"a", period + 5, false}, {"a", 3 * period, true}} {
			got, err := way.admit(ctx, conns[i%2], ask{step.user, start + step.at, period})
			if err != nil || got != step.admitted {
				t.Errorf("%s, step %d: %v, %v", way.name, i, got, err)
			}
		}
		var all sync.WaitGroup
		admitted := make([]int, len(conns))
		for i, c := range conns {
			all.Go(func() {
				for range 50 {
					got, err := way.admit(ctx, c, ask{"a", start + 10*period, period})
					if codeOf(err) == "40P01" {
						continue // what the experiment is about
					}
					if err != nil {
						t.Errorf("%s: %v", way.name, err)
					}
					if got {
						admitted[i]++
					}
				}
			})
		}
		all.Wait()
		if sum := admitted[0] + admitted[1]; sum > 1 || sum == 0 && way.name != "range" {
			t.Errorf("%s: two at once have %d admitted", way.name, sum)
		}
		for _, c := range conns {
			_ = c.Close(ctx)
		}
	}
}

// The load is 29,850 requests of each instance, at any speed.
func TestSteps(t *testing.T) {
	for _, compress := range []float64{1, 10, 60} {
		sum, span := 0.0, 0.0
		for _, s := range steps(compress) {
			sum, span = sum+s.Rate*s.For.Seconds(), span+s.For.Seconds()
		}
		if math.Abs(sum-29_850) > 1 || math.Abs(span*compress-600) > 0.1 {
			t.Errorf("%g times as fast: %g requests in %g s", compress, sum, span)
		}
	}
}

// The row of a way has the worse verdict of its generators.
func TestRowOfAWay(t *testing.T) {
	table := result.NewTable("way")
	o := outcome{name: "weir", loads: make([]*rig.LoadResult, 3)}
	for i, v := range []record.Validity{record.Valid, record.Invalid, record.Degraded} {
		o.loads[i] = &rig.LoadResult{Result: record.Result{Verdict: v}}
	}
	o.add(table, 0)
	if row := table.Rows[0]; row[0] != "weir" || row[len(row)-1] != "INVALID" {
		t.Errorf("the row is %q", row)
	}
}

// What a way admits is held against the bound; of range nothing is expected.
func TestExpect(t *testing.T) {
	for _, test := range []struct {
		o      outcome
		missed int
	}{
		{outcome{name: "weir", admitted: 295}, 0},
		{outcome{name: "weir", admitted: 301}, 1},
		{outcome{name: "upsert", admitted: 284}, 1},
		{outcome{name: "nowait", admitted: 300, failed: 2, after: cost{deadlocks: 1}}, 2},
		{outcome{name: "range", admitted: 1000, failed: 2}, 0},
	} {
		var l rig.Lab
		test.o.loads = []*rig.LoadResult{{}}
		test.o.expect(&l)
		if got := len(l.Missed()); got != test.missed {
			t.Errorf("%+v: %d missed, want %d: %v", test.o, got, test.missed, l.Missed())
		}
		if judged := len(l.Loads) == 1; judged != (test.o.name != "range") {
			t.Errorf("%s: whether its load decides if the run is conclusive: %v", test.o.name, judged)
		}
	}
}

// A figure that was not measured is a dash in the table.
func TestKnown(t *testing.T) {
	for figure, want := range map[float64]string{0: "0.00", 3.783: "3.78", math.NaN(): "–"} {
		if got := known("%.2f", figure); got != want {
			t.Errorf("%v is written %q, want %q", figure, got, want)
		}
	}
}

// A decision from memory, or one made by the failure mode, makes the measurement invalid, as do
// decisions for which nobody asked.
func TestDecidedOnce(t *testing.T) {
	const open = instances * goalConnections
	for decisions, valid := range map[float64]bool{999: false, 1000: true, 1000 + open: true, 1001 + open: false} {
		if err := decidedOnce(1000, decisions); (err == nil) != valid {
			t.Errorf("%.0f decisions for 1000 answers: %v", decisions, err)
		}
	}
}
