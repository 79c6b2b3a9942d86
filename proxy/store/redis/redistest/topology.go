package redistest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"weir/internal/testkit"
)

// Slots is the number of hash slots of a Cluster.
const Slots = 16384

// StartCluster starts masters that share the slots evenly, and a replica of the first.
func StartCluster(t testing.TB) (masters []*Server, replica *Server) {
	t.Helper()
	node := func() *Server {
		return Start(t, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(FreePort(t)),
			"--cluster-node-timeout", "3000", "--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0")
	}
	masters, replica = []*Server{node(), node(), node()}, node()
	for i, m := range masters {
		m.Do("cluster", "addslotsrange", strconv.Itoa(i*Slots/3), strconv.Itoa((i+1)*Slots/3-1))
		m.Do("cluster", "set-config-epoch", strconv.Itoa(i+1))
	}
	nodes := append(masters[:3:3], replica)
	for _, n := range nodes[1:] {
		n.Do("cluster", "meet", "127.0.0.1", strconv.Itoa(nodes[0].Port), nodes[0].Args[3])
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
		return strings.Contains(info, "master_link_status:up") && strings.Contains(info, "master_port:"+strconv.Itoa(master.Port)) &&
			strings.Contains(info, "slave_repl_offset:"+strings.Fields(has)[0])
	})
}

// StartSentinel starts a Sentinel that watches a master, called weir.
func StartSentinel(t testing.TB, master *Server) *Server {
	t.Helper()
	sentinel := New(t)
	file := filepath.Join(sentinel.Dir, "sentinel.conf")
	text := fmt.Sprintf("port %d\nsentinel monitor weir 127.0.0.1 %d 1\nsentinel down-after-milliseconds weir 3000\nsentinel failover-timeout weir 2000\n", sentinel.Port, master.Port)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	sentinel.Launch(file, "--sentinel")
	sentinel.Knows("master", strconv.Itoa(master.Port))
	return sentinel
}

// Knows waits until a Sentinel tells a word of the masters, or the replicas of the one called weir.
func (s *Server) Knows(what, word string) {
	s.T.Helper()
	command := map[string]string{"master": "get-master-addr-by-name", "replica": "replicas"}[what]
	testkit.Eventually(s.T, "the sentinel knows the "+what, func() bool {
		out, err := s.Try("sentinel", command, "weir")
		return err == nil && strings.Contains(out, word)
	})
}
