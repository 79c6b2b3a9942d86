package redis

import (
	"context"
	"crypto/rand"
	"strconv"
	"syscall"

	"github.com/redis/rueidis"
)

const (
	// epochName is the name of a random text that is lost together with the keys, when Redis is
	// emptied or restarts without its data.
	epochName = namespace + "epoch"
	// epochsOfCluster is the number of such texts in a Cluster: one in each range of so many slots
	// of equal size. A node whose slots include no whole range may have none.
	epochsOfCluster = 32
	epochBytes      = 32 // of a text that are read
)

// epochNames returns the name without a Cluster, and those in a Cluster.
func epochNames(prefix string) (single, cluster []string) {
	cluster = make([]string, epochsOfCluster)
	for i, found := 0, 0; found < epochsOfCluster; i++ {
		name := prefix + epochName + "{" + strconv.Itoa(i) + "}"
		if at := int(slotOf(name)) * epochsOfCluster / slots; cluster[at] == "" {
			cluster[at], found = name, found+1
		}
	}
	return []string{prefix + epochName}, cluster
}

// dialed counts a new connection for decisions; see net.Dialer.Control.
func (be *backend) dialed(string, string, syscall.RawConn) error {
	be.dials.Add(1)
	return nil
}

// appendEpoch appends a text that changes when keys may have been lost: it has the number of
// connections made, since a new one may lead to a replica that lacks something, and the epochs. An
// epoch that cannot be read or written is left out. It is no fault of the store.
func (be *backend) appendEpoch(ctx context.Context, conn rueidis.Client, dst []byte) []byte {
	names := be.epochs
	if conn.Mode() == rueidis.ClientModeCluster {
		names = be.clusterEpochs
	}
	epochs, missing := be.readEpochs(ctx, conn, names), []rueidis.Completed(nil)
	for i, name := range names {
		if text, err := epochs[i].ToString(); err == nil && text == "" {
			missing = append(missing, conn.B().Set().Key(name).Value(rand.Text()).Nx().Build())
		}
	}
	if len(missing) > 0 {
		conn.DoMulti(ctx, missing...)
		epochs = be.readEpochs(ctx, conn, names) // another proxy may have been first
	}
	dst = append(dst, ' ')
	dst = strconv.AppendUint(dst, be.dials.Load(), 10)
	for _, epoch := range epochs {
		text, _ := epoch.ToString()
		dst = append(append(dst, ' '), text...)
	}
	return dst
}

func (be *backend) readEpochs(ctx context.Context, conn rueidis.Client, names []string) []rueidis.RedisResult {
	reads := make([]rueidis.Completed, len(names))
	for i, name := range names {
		reads[i] = conn.B().Getrange().Key(name).Start(0).End(epochBytes - 1).Build()
	}
	return conn.DoMulti(ctx, reads...)
}
