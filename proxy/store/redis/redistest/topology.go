package redistest

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"weir/internal/test/testkit"
)

// Slots is the number of hash slots of a Cluster.
const Slots = 16384

// StartCluster starts masters that share the slots evenly, and a replica of the first.
func StartCluster(t testing.TB) (masters []*Server, replica *Server) {
	t.Helper()
	node := func() *Server {
		return StartNode(t, "--cluster-node-timeout", "3000", "--cluster-replica-validity-factor", "0",
			"--repl-diskless-sync-delay", "0")
	}
	masters, replica = []*Server{node(), node(), node()}, node()
	for i, m := range masters {
		m.Do("cluster", "addslotsrange", strconv.Itoa(i*Slots/3), strconv.Itoa((i+1)*Slots/3-1))
		m.Do("cluster", "set-config-epoch", strconv.Itoa(i+1))
	}
	nodes := append(masters[:3:3], replica)
	for _, n := range nodes[1:] {
		n.Do("cluster", "meet", "127.0.0.1", nodes[0].Port, nodes[0].Args[3])
	}
	all := func(what, info string) {
		testkit.Eventually(t, what, func() bool {
			for _, n := range nodes {
				if !strings.Contains(n.Do("cluster", "info"), info) {
					return false
				}
			}
			return true
		})
	}
	all("all nodes know each other", "cluster_known_nodes:4")
	replica.Follow(masters[0])
	all("the cluster is well", "cluster_state:ok")
	return masters, replica
}

// Follow has a node of a Cluster be the replica of another.
func (s *Server) Follow(master *Server) {
	s.T.Helper()
	id := master.Do("cluster", "myid")
	testkit.Eventually(s.T, "the replica knows its master", func() bool {
		_, err := s.Try("cluster", "replicate", id)
		return err == nil
	})
	s.Followed(master)
}

// Followed waits until a replica has what its master has.
func (s *Server) Followed(master *Server) {
	s.T.Helper()
	testkit.Eventually(s.T, "the replica follows", func() bool {
		_, has, _ := strings.Cut(master.Do("info", "replication"), "master_repl_offset:")
		info := s.Do("info", "replication")
		return strings.Contains(info, "master_link_status:up") && strings.Contains(info, "master_port:"+master.Port) &&
			strings.Contains(info, "slave_repl_offset:"+strings.Fields(has)[0])
	})
}

// StartSentinel starts a Sentinel that watches a master, called weir, and waits until it knows
// the master and its replicas.
func StartSentinel(t testing.TB, master *Server, replicas ...*Server) *Server {
	t.Helper()
	sentinel := New(t)
	file := filepath.Join(sentinel.Dir, "sentinel.conf")
	text := fmt.Sprintf("port %s\nsentinel monitor weir 127.0.0.1 %s 1\nsentinel down-after-milliseconds weir "+
		"3000\nsentinel failover-timeout weir 2000\n", sentinel.Port, master.Port)
	testkit.WriteFile(t, file, text)
	sentinel.Launch(file, "--sentinel")
	knows := func(command string, s *Server) {
		testkit.Eventually(t, "the sentinel tells a port in "+command, func() bool {
			out, err := sentinel.Try("sentinel", command, "weir")
			return err == nil && strings.Contains(out, s.Port)
		})
	}
	knows("get-master-addr-by-name", master)
	for _, r := range replicas {
		knows("replicas", r)
	}
	return sentinel
}
