package postgres

import (
	"syscall"
	"testing"

	"weir/internal/test/testkit"
	"weir/proxy/store/postgres/postgrestest"
)

// edited returns what b says about edits, as soon as the server answers.
func edited(t *testing.T, b *backend) (edits string) {
	t.Helper()
	testkit.Eventually(t, "it says what was edited", func() bool {
		var err error
		edits, err = b.Edits(background)
		return err == nil
	})
	return edits
}

// The count of edits changes when the keys are lost, and only then.
func TestLostKeys(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	b := probed(t, Config{URL: s.URL("weir", "weir")})
	before := edited(t, b)
	for _, step := range []struct {
		what  string
		do    func()
		loses bool
	}{
		{"deciding", func() { admit(t, b) }, false},
		{"sweeping", func() { testkit.Must(b.sweep(background, "keys", 0))(t) }, false},
		{"a restart", func() { s.Shutdown(); s.Restart() }, false},
		{"TRUNCATE", func() { s.Do("weir", "TRUNCATE weir.keys") }, true},
		{"a crash", func() { s.Signal(syscall.SIGKILL); s.Restart() }, true},
	} {
		step.do()
		for range 2 {
			after := edited(t, b)
			if (after != before) != step.loses {
				t.Errorf("%s: it was %q, is %q", step.what, before, after)
			}
			before, step.loses = after, false
		}
	}
}

// A row that epoch_9 makes is removed when it has not been used for a day: any role that may decide
// can have any number of them made, and proxies that change their prefix leave one.
func TestUnusedEpochs(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	b := probed(t, Config{URL: s.URL("weir", "weir")})
	before := edited(t, b)
	s.Do("weir", "SELECT count(weir.epoch_9(('name ' || n)::bytea)) FROM generate_series(1, 200) n")
	for _, step := range []struct{ hours, left string }{{"11", "201"}, {"13", "1"}} {
		for range 2 { // that of the proxy is used in between
			s.Do("weir", "UPDATE weir.keys SET expires = expires - "+step.hours+" * 3600000000")
			if after := edited(t, b); after != before {
				t.Errorf("it was %q, is %q", before, after)
			}
		}
		testkit.Must(b.sweep(background, "keys", 0))(t)
		if left := s.Do("weir", "SELECT count(*) FROM weir.keys"); left != step.left {
			t.Errorf("unused for twice %s hours: %s rows are left, want %s", step.hours, left, step.left)
		}
		s.Do("weir", "SELECT count(weir.epoch_9(name)) FROM weir.keys")
	}
}

// A standby has the rows of logged tables, apart from those that were written last.
func TestLostByStandby(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	b := openBackend(t, Config{URL: s.URL("weir", "weir"), Durable: true})
	if err := b.Probe(background); err != nil {
		t.Fatal(err)
	}
	before := edited(t, b)
	standby := s.Standby()
	standby.Do("postgres", "SELECT pg_promote()")
	b = openBackend(t, Config{URL: standby.URL("weir", "weir"), Durable: true})
	if after := edited(t, b); after == before {
		t.Errorf("it is still %q", after)
	}
}
