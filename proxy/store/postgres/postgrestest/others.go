package postgrestest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"weir/internal/test/process"
	"weir/internal/test/testkit"
)

// Pooler starts a PgBouncer in transaction mode in front of the server's database weir, with
// that many connections to the server. Of its methods URL, Signal and RestartPooler can be
// used.
func (s *Server) Pooler(connections int) *Server {
	s.t.Helper()
	p := newServer(s.t)
	config := fmt.Sprintf(
		"[databases]\nweir = host=127.0.0.1 port=%s dbname=weir user=weir\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"+
			"listen_port = %s\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\ndefault_pool_size = %d\n",
		s.port, p.port, connections)
	s.check(os.WriteFile(p.poolerConfig(), []byte(config), 0o644))
	p.RestartPooler()
	return p
}

func (s *Server) poolerConfig() string { return filepath.Join(s.server.Dir, "pgbouncer.ini") }

// RestartPooler starts a PgBouncer that was killed, and waits until it accepts connections.
func (s *Server) RestartPooler() {
	s.t.Helper()
	s.check(s.server.Launch(testkit.Context(s.t), "pgbouncer", s.poolerConfig()))
}

// Standby starts a standby of the server, which has what the server has so far.
func (s *Server) Standby() *Server {
	s.t.Helper()
	standby := newServer(s.t)
	_, err := standby.server.Run("", "pg_basebackup", "-h", "127.0.0.1", "-p", s.port, "-U", "weir",
		"-D", standby.Data(), "--checkpoint=fast", "--no-sync", "--write-recovery-conf")
	s.check(err)
	standby.Restart()
	testkit.Eventually(s.t, "the standby follows", func() bool {
		return s.Do("postgres", "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'") == "1"
	})
	return standby
}

// URLs is how a database is reached on several servers, by one of them that takes writes.
func URLs(role, database string, servers ...*Server) string {
	var hosts []string
	for _, s := range servers {
		hosts = append(hosts, "127.0.0.1:"+s.port)
	}
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", role, strings.Join(hosts, ","), database)
}

// FilesMax has no file of the server grow beyond that many bytes, as when its disk is full;
// a negative number ends that. A number that ends within a block makes the server say that
// the disk is full. It must be larger than a segment of the log, which is 1 MB.
func (s *Server) FilesMax(bytes int64) {
	s.t.Helper()
	limit := "unlimited"
	if bytes >= 0 {
		limit = strconv.FormatInt(bytes, 10)
	}
	pid := s.server.Pid()
	for _, pid := range append(process.Children(pid), pid) { // as the server's user, which root need not be allowed to
		_, err := s.server.Run("", "prlimit", "--pid", strconv.Itoa(pid), "--fsize="+limit+":")
		if _, ended := os.Stat(fmt.Sprintf("/proc/%d", pid)); ended == nil {
			s.check(err)
		}
	}
}
