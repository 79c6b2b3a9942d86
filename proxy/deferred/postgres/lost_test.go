package postgres

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/test/relay"
	"weir/internal/test/testkit"
	"weir/proxy/deferred"
	"weir/proxy/deferred/deferredtest"
	"weir/proxy/store/postgres"
	"weir/proxy/store/postgres/postgrestest"
)

// A proxy that has another key than the entries claims none of them, even if it was there first.
func TestOtherKey(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	first := openQueue(t, Config{URL: s.URL("weir", "weir")})
	second := openQueue(t, Config{URL: s.URL("weir", "weir"), Key: bytes.Repeat([]byte{1}, deferred.SealKeyBytes)})
	e := deferredtest.NewEntry("shop")
	deferredtest.PutAccepted(t, second, e)
	if claimed, _, err := first.Claim(t.Context(), time.Now().Add(time.Second), 1); err == nil || len(claimed) > 0 {
		t.Errorf("claimed %d without the key, %v", len(claimed), err)
	}
	if got, _, err := second.Read(t.Context(), e.ID); err != nil || got.State != deferred.Waiting {
		t.Errorf("read %+v, %v", got, err)
	}
	if first.Stats().Err == nil {
		t.Error("it goes on without the key")
	}
}

// through opens a queue behind a relay.
func through(t *testing.T, s *postgrestest.Server, silence time.Duration) (*Queue, *relay.Relay) {
	t.Helper()
	direct := s.URL("weir", "weir")
	host := direct[strings.Index(direct, "@")+1:]
	host = host[:strings.Index(host, "/")]
	r := testkit.Must(relay.New(func() string { return host }))(t)
	t.Cleanup(r.Close)
	return openQueue(t, Config{URL: strings.Replace(direct, host, r.Addr(), 1), silence: silence}), r
}

// What was claimed by a statement whose answer never came is delivered: nobody has sent it.
func TestClaimUnanswered(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	q, r := through(t, s, time.Second)
	testkit.Eventually(t, "an entry is accepted", func() bool { // another each time: what is in doubt is barred
		return deferredtest.Put(q, deferredtest.NewEntry("shop")).Outcome == deferred.Accepted
	})
	r.Delay(5 * time.Second)
	if claimed, _, err := q.Claim(t.Context(), time.Now().Add(time.Second), 1); err == nil {
		t.Fatalf("%d claimed", len(claimed))
	}
	testkit.Eventually(t, "it is claimed on the server",
		func() bool { return s.Do("weir", "SELECT state FROM weir.deferred WHERE state < 7") == "1" })
	r.Delay(0)
	testkit.Eventually(t, "it is claimed", func() bool {
		claimed, _, err := q.Claim(t.Context(), time.Now().Add(time.Second), 1)
		return err == nil && len(claimed) == 1 && claimed[0].Entry.Attempts == 0
	})
}

// An entry that was barred from being stored may be put again, as callbacks are.
func TestBarred(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	q := openQueue(t, Config{URL: s.URL("weir", "weir")})
	e := deferredtest.NewEntry("shop")
	e.Scope, e.Fingerprint = deferred.SHA256{1}, deferred.SHA256{1}
	q.doubt([]*putting{{PutRequest: &deferred.PutRequest{Entry: e}}})
	if err := q.withdraw(); err != nil {
		t.Fatal(err)
	}
	if got := deferredtest.Put(q, e); got.Outcome != deferred.Unstored || got.Err == nil {
		t.Errorf("put while barred: %s, %v", got.Outcome, got.Err)
	}
	s.Do("weir", "UPDATE weir.deferred SET forget = 1")
	if _, _, err := q.Claim(t.Context(), time.Now().Add(time.Second), 1); err != nil {
		t.Fatal(err)
	}
	deferredtest.PutAccepted(t, q, e)
}

// A settlement ends once, also when others of its group have to be written again.
func TestSettledOnce(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	q := openQueue(t, Config{URL: s.URL("weir", "weir")})
	var entries []deferred.Entry
	for _, line := range []string{"a", "b", "c", "d"} {
		entries = append(entries, deferredtest.NewEntry(line))
	}
	deferredtest.PutAccepted(t, q, entries...)
	claimed := deferredtest.RequireClaims(t, q, time.Now().Add(time.Second), len(entries))
	// The first statement fails because of one settlement, the second is the first half, the third
	// finds that the server goes down.
	s.Do("weir", "CREATE SEQUENCE weir.n; CREATE FUNCTION weir.fails() RETURNS trigger LANGUAGE plpgsql SECURITY "+
		"DEFINER AS $$ DECLARE n int8 := nextval('weir.n'); BEGIN "+
		"IF n = 1 THEN RAISE EXCEPTION 'this one' USING ERRCODE = '22000'; END IF; "+
		"IF n = 3 THEN RAISE EXCEPTION 'all' USING ERRCODE = '57P03'; END IF; RETURN NULL; END $$; "+
		"CREATE TRIGGER fails BEFORE UPDATE ON weir.deferred EXECUTE FUNCTION weir.fails()")
	var ends [4]atomic.Int64
	_ = q.puts.Fail(errors.New("held up")) // so that they make up one group
	for i, c := range claimed {
		q.Settle(time.Now(), &deferred.Settlement{Lease: c.Lease, To: deferred.Done, Keep: time.Hour,
			Done: func(error) { ends[i].Add(1) }})
	}
	q.puts.Recover()
	q.settles.Notify()
	testkit.Eventually(t, "the last is settled", func() bool { return ends[3].Load() > 0 })
	if n := s.Do("weir", "SELECT last_value FROM weir.n"); n != "4" {
		t.Errorf("%s statements", n)
	}
	for i := range ends {
		if n := ends[i].Load(); n != 1 {
			t.Errorf("settlement %d has ended %d times", i, n)
		}
	}
}

// An edit ends with the context of who wants it, which says nothing about the server.
func TestEditorLeaves(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	q := openQueue(t, Config{URL: s.URL("weir", "weir")})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := q.Edit(ctx, time.Now(), deferred.Edit{ID: deferred.ID{1}}); !errors.Is(err, context.Canceled) {
		t.Errorf("edited: %v", err)
	}
	if err := q.Stats().Err; err != nil {
		t.Errorf("the queue is unusable: %v", err)
	}
}

// A server that is too slow ends the statement, so that nothing of it is in doubt.
func TestTooSlow(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	log := new(testkit.Log)
	q := openQueue(t, Config{URL: s.URL("weir", "weir"), Log: log.Logger(), silence: 5 * time.Second})
	s.Do("weir", "CREATE FUNCTION weir.waits() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(600); "+
		"RETURN NEW; END $$; "+
		"CREATE TRIGGER waits BEFORE INSERT ON weir.deferred FOR EACH ROW EXECUTE FUNCTION weir.waits()")
	testkit.Eventually(t, "the server ends the statement", func() bool {
		return postgres.TimedOut(deferredtest.Put(q, deferredtest.NewEntry("shop")).Err)
	})
	q.mu.Lock()
	doubtful := len(q.doubtful)
	q.mu.Unlock()
	if doubtful > 0 || log.Count("why the server is slow") == 0 {
		t.Errorf("%d are in doubt\n%s", doubtful, log)
	}
	s.Do("weir", "DROP TRIGGER waits ON weir.deferred")
	testkit.Eventually(t, "it stores", func() bool {
		return deferredtest.Put(q, deferredtest.NewEntry("shop")).Outcome == deferred.Accepted
	})
}

// What was claimed while the queue was being closed, for a caller who has left, is back in its line.
func TestClaimedAtClose(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	q := openQueue(t, Config{URL: s.URL("weir", "weir"), closing: testkit.Timeout})
	deferredtest.PutAccepted(t, q, deferredtest.NewEntry("shop"))
	s.Do("weir", "CREATE TABLE weir.open (gate text); CREATE FUNCTION weir.waits() RETURNS trigger LANGUAGE plpgsql "+
		"SECURITY DEFINER AS $$ BEGIN "+
		"WHILE NOT EXISTS (SELECT FROM weir.open WHERE gate = TG_OP) LOOP PERFORM pg_sleep(0.01); END LOOP; "+
		"RETURN NEW; END $$; "+
		"CREATE TRIGGER waits BEFORE INSERT OR UPDATE ON weir.deferred FOR EACH ROW EXECUTE FUNCTION weir.waits()")
	running := func(function string) bool {
		return s.Do("weir", "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%deferred_"+
			function+"%' AND pid <> pg_backend_pid()") != "0"
	}
	put := deferredtest.PutAll(q, deferredtest.NewEntry("other"))
	ctx, leave := context.WithCancel(t.Context())
	left, closed := make(chan error, 1), make(chan error, 1)
	go func() {
		_, _, err := q.Claim(ctx, time.Now().Add(time.Second), 1)
		left <- err
	}()
	testkit.Eventually(t, "one is stored and one claimed", func() bool { return running("put") && running("claim") })
	leave()
	if err := testkit.Receive(t, left, "the end of the claim"); !errors.Is(err, context.Canceled) {
		t.Fatalf("claimed: %v", err)
	}
	go func() { closed <- q.Close() }()
	testkit.Eventually(t, "it is being closed", q.puts.Closed)
	s.Do("weir", "INSERT INTO weir.open VALUES ('UPDATE')")
	testkit.Eventually(t, "the claim is over", func() bool { return !running("claim") && !running("settle") })
	s.Do("weir", "INSERT INTO weir.open VALUES ('INSERT')")
	testkit.Receive(t, put, "the end of a put")
	if err := testkit.Receive(t, closed, "the end of the queue"); err != nil {
		t.Fatal(err)
	}
	if got := s.Do("weir", "SELECT string_agg(state || ' ' || attempts, ', ') FROM weir.deferred"); got != "0 0, 0 0" {
		t.Errorf("states and attempts are %s", got)
	}
}
