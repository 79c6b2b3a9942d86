package redis

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"weir/internal/test/testkit"
	"weir/proxy/store"
	"weir/proxy/store/redis/redistest"
)

// A Redis that cannot be used until an operator changes something is distinguished from one that is
// temporarily unavailable.
func TestMisconfigured(t *testing.T) {
	t.Parallel()
	closed, open := redistest.Start(t, "--requirepass", "secret"), redistest.Start(t)
	open.Do("acl", "setuser", "without", "on", ">secret", "~*", "+hello", "+auth")
	open.Do("acl", "setuser", "half", "on", ">secret", "~*", "+@all", "-set")
	replica := redistest.Start(t)
	replica.Do("replicaof", "127.0.0.1", "1")
	for name, test := range map[string]struct {
		cfg   Config
		cause store.MisconfigCause // 0: none
	}{
		"without a password": {Config{Addrs: []string{closed.Addr()}}, store.Unauthenticated},
		"a wrong password":   {Config{Addrs: []string{closed.Addr()}, Password: "wrong"}, store.Unauthenticated},
		"an unknown user": {Config{Addrs: []string{open.Addr()}, Username: "nobody", Password: "x"},
			store.Unauthenticated},
		"no right": {Config{Addrs: []string{open.Addr()}, Username: "without", Password: "secret"},
			store.Unauthorized},
		"no right in Lua": {Config{Addrs: []string{open.Addr()}, Username: "half", Password: "secret"},
			store.Unauthorized},
		"no database":         {Config{Addrs: []string{open.Addr()}, DB: 99}, store.NoDatabase},
		"no Cluster":          {Config{Addrs: []string{open.Addr()}, Topology: Cluster}, store.WrongProtocol},
		"no Sentinel":         {Config{Addrs: []string{open.Addr()}, SentinelMaster: "m"}, store.WrongProtocol},
		"a web server":        {saying(t, "HTTP/1.1 400 Bad Request"), store.WrongProtocol},
		"TLS to a web server": {securely(saying(t, "HTTP/1.1 400 Bad Request")), store.WrongProtocol},
		"an old server":       {saying(t, "-ERR invalid password"), store.Unauthenticated},
		"no master":           {saying(t, "-ERR No such master with that name"), store.NoDatabase},
		"starting":            {saying(t, "-LOADING Redis is loading the dataset in memory"), 0},
		"no connection left":  {saying(t, "-ERR max number of clients reached"), 0},
		"a lost master":       {saying(t, "-MASTERDOWN Link with MASTER is down"), 0},
		"a lost Cluster":      {saying(t, "-CLUSTERDOWN The cluster is down"), 0},
		"a busy server":       {saying(t, "-BUSY Redis is busy running a script"), 0},
		"nobody":              {Config{Addrs: []string{testkit.FreeAddr(t)}}, 0},
		"read only":           {Config{Addrs: []string{replica.Addr()}}, 0},
		"one that works":      {Config{Addrs: []string{open.Addr()}}, 0},
	} {
		test.cfg.Timeout, test.cfg.dialTimeout = timeoutMax, testkit.Timeout
		c := testkit.Must(New(test.cfg))(t)
		var cause store.MisconfigCause
		if fault, ok := errors.AsType[*store.MisconfiguredError](c.Misconfigured()); ok {
			cause = fault.Cause
		}
		if cause != test.cause {
			t.Errorf("%s: %d (%v), want %d", name, cause, c.Misconfigured(), test.cause)
		}
		c.Close()
	}
}

func securely(cfg Config) Config {
	cfg.TLS = true
	return cfg
}

// saying is the configuration of a client whose server answers every connection with a
// line.
func saying(t *testing.T, line string) Config {
	return Config{Addrs: []string{testkit.Serve(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 4096))
		fmt.Fprint(c, line+"\r\n")
		_, _ = c.Read(make([]byte, 1)) // until the client has gone
		c.Close()
	})}}
}

// A misconfiguration that comes later is an ERROR, once a minute.
func TestMisconfiguredLater(t *testing.T) {
	t.Parallel()
	o := newOutage(t, nil)
	o.l.ask(1, counter("k", fixed(1000)))
	o.s.Do("acl", "setuser", "default", "-eval", "-evalsha")
	o.away()
	const line = "Redis is misconfigured, staying in fail-open mode"
	testkit.Eventually(t, line, func() bool { return o.log.Count(line) > 0 })
	before := o.c.Stats().Commands
	testkit.Eventually(t, "three more attempts", func() bool { return o.c.Stats().Commands > before+3 })
	if text := o.log.String(); strings.Count(text, line) != 1 || !strings.Contains(text, "level=ERROR") ||
		!strings.Contains(text, store.Unauthorized.String()) {
		t.Errorf("told\n%s", text)
	}
	o.s.Do("acl", "setuser", "default", "+@all")
	o.back()
}
